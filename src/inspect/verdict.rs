//! What tidegate's own decoder does with a set, in words.

use crate::decode::{DropReason, SeenSet, Tally};

use super::count;
use super::library::Template;

/// Lowest id of a template, RFC 7011 section 3.4.1.
const TEMPLATE_ID_MIN: u16 = 256;

/// What became of a set.
pub(super) fn of_set(set: &SeenSet) -> String {
    let is_data = set.id >= TEMPLATE_ID_MIN;
    let mut parts = Vec::new();
    let (templates, learned) = (set.tally.templates, set.tally.templates_learned);
    if templates > 0 {
        parts.push(format!("{}, {learned} new or changed", count(templates, "template")));
    }
    parts.extend(decoded(&set.tally, if is_data { "" } else { " that waited" }));
    parts.extend(dropped(&set.tally, &Tally::default()));
    match parts.is_empty() {
        true if waits(set) => format!("waits for template {}", set.id),
        true => "withdrawal or padding".to_owned(),
        false => parts.join("; "),
    }
}

/// Whether it is a data set that waits for its template: such is neither decoded nor dropped.
pub(super) fn waits(set: &SeenSet) -> bool {
    let is_decoded = set.tally.flows + set.tally.options_records > 0;
    set.id >= TEMPLATE_ID_MIN && !is_decoded && set.tally.drops().next().is_none()
}

/// What became of one template of a set. How many were refused, and why, is said of the set.
pub(super) fn of_template(template: &Template, set: &SeenSet) -> &'static str {
    let refusals = [DropReason::BadTemplate, DropReason::TemplateLimit, DropReason::ExporterLimit];
    let is_any_refused = refusals.iter().any(|&reason| set.tally.dropped(reason).count > 0);
    let is_learned = set.learned.iter().any(|learned| learned.id == template.id);
    match (is_learned, template.is_redefined) {
        (true, true) => "changed",
        (true, false) => "new",
        (false, _) if is_any_refused && set.tally.templates == 1 => "refused",
        (false, _) if is_any_refused => "known or refused",
        (false, _) => "known",
    }
}

/// What became of a datagram, beside what its sets say.
pub(super) fn of_datagram(tally: &Tally, sets: &[SeenSet]) -> Vec<String> {
    let mut said = Tally::default();
    sets.iter().for_each(|set| said.add(&set.tally));
    let mut lines = Vec::new();
    if sets.is_empty() {
        lines.extend(decoded(tally, ""));
        lines.extend(counted(&[
            ("noted", tally.counter_samples, "counter sample"),
            ("noted", tally.drop_events, "drop event"),
        ]));
    }
    lines.extend(counted(&[
        ("never came before it", tally.lost_records, "record"),
        ("never came before it", tally.lost_datagrams, "datagram"),
    ]));
    if tally.late_datagrams > 0 {
        lines.push("came behind a later one".to_owned());
    }
    if tally.duplicate_datagrams > 0 {
        lines.push("it or one before it came twice".to_owned());
    }
    if tally.restarts > 0 {
        lines.push("the exporter numbers anew".to_owned());
    }
    lines.extend(dropped(tally, &said));
    lines
}

fn decoded(tally: &Tally, suffix: &str) -> impl Iterator<Item = String> {
    let records = counted(&[
        ("decoded", tally.flows, "flow"),
        ("decoded", tally.options_records, "options record"),
    ]);
    records.into_iter().map(move |text| text + suffix)
}

/// What there is any of.
fn counted(counts: &[(&str, u64, &str)]) -> Vec<String> {
    let counts = counts.iter().filter(|(_, number, _)| *number > 0);
    counts.map(|&(what, number, noun)| format!("{what}: {}", count(number, noun))).collect()
}

/// What was dropped and is not `said` yet.
fn dropped(tally: &Tally, said: &Tally) -> impl Iterator<Item = String> {
    tally.drops().filter_map(|(reason, dropped)| {
        let bytes = dropped.bytes - said.dropped(reason).bytes;
        let is_new = dropped.count > said.dropped(reason).count;
        is_new.then(|| format!("dropped: {}, {}", reason.label(), count(bytes, "byte")))
    })
}
