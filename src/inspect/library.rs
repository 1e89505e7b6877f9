//! The crate `netflow_parser`, asked for one set at a time.
//!
//! It is general and slow, and what it cannot read it drops without a word: a bad set takes the others of its
//! datagram along, an empty field of variable length the rest of its set. So it is asked for single sets, the
//! records that it leaves are cut out by the lengths of their template, and where it refuses a template that
//! tidegate takes, tidegate's is used.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use netflow_parser::NetflowError;

use crate::decode::{Protocol, SeenSet};

use super::domain::Domain;
use super::field::Field;
use super::header::Message;

/// Observation domains that templates are kept of. A capture with more is of spoofers: all are forgotten.
const DOMAINS_MAX: usize = 10_000;

/// Characters of an error that are shown: the crate puts the datagram in it.
const ERROR_CHARS_MAX: usize = 120;

/// One exporter's domain.
pub(super) type Key = (IpAddr, Protocol, u32);

/// The crate's parsers, and the templates that they have learned: it does not show them, and its names of
/// elements lead back to no number.
#[derive(Debug, Default)]
pub(super) struct Library {
    domains: HashMap<Key, Domain>,
}

/// What is in a set.
#[derive(Debug)]
pub(super) enum Contents {
    Templates(Vec<Template>),
    Records {
        fields: Arc<[Field]>,
        /// The bytes of each field of each record.
        records: Vec<Vec<Vec<u8>>>,
        /// So many the crate read; the others were cut out by the lengths of the template.
        read_by_library: usize,
        /// What lies behind the last of them.
        rest_bytes: usize,
    },
    /// Nothing that the crate reads, and why.
    Unread(String),
}

#[derive(Debug)]
pub(super) struct Template {
    pub(super) id: u16,
    pub(super) fields: Arc<[Field]>,
    pub(super) is_options: bool,
    /// Another one had its id.
    pub(super) is_redefined: bool,
    /// The crate reads it.
    pub(super) is_of_library: bool,
}

impl Library {
    /// Reads one set of a message, header included; `seen` is what tidegate's own decoder did with it.
    pub(super) fn read(
        &mut self,
        exporter: IpAddr,
        message: &Message<'_>,
        seen: &SeenSet,
        set: &[u8],
    ) -> Contents {
        let domain = self.domain(exporter, message);
        let records_of_tidegate = seen.tally.flows + seen.tally.options_records;
        match domain.ask(message, set) {
            Contents::Templates(templates) => domain.learn_others(templates, seen),
            Contents::Unread(_) if !seen.learned.is_empty() => {
                domain.learn_others(Vec::new(), seen)
            }
            Contents::Unread(why) if records_of_tidegate > 0 => {
                domain.records(seen.id, set, Vec::new()).unwrap_or(Contents::Unread(why))
            }
            contents => contents,
        }
    }

    /// Reads a data set that waited for a template of `message`.
    pub(super) fn read_waited(
        &mut self,
        exporter: IpAddr,
        message: &Message<'_>,
        template_id: u16,
        set: &[u8],
    ) -> Contents {
        let domain = self.domain(exporter, message);
        match domain.ask(message, set) {
            Contents::Unread(why) => {
                domain.records(template_id, set, Vec::new()).unwrap_or(Contents::Unread(why))
            }
            contents => contents,
        }
    }

    fn domain(&mut self, exporter: IpAddr, message: &Message<'_>) -> &mut Domain {
        let key = (exporter, message.protocol, message.domain_id);
        if self.domains.len() >= DOMAINS_MAX && !self.domains.contains_key(&key) {
            self.domains.clear();
        }
        self.domains.entry(key).or_insert_with(Domain::new)
    }
}

/// An error of the crate, cut.
pub(super) fn said_by_library(error: &NetflowError) -> String {
    let whole = error.to_string();
    let shown: String = whole.chars().take(ERROR_CHARS_MAX).collect();
    let cut = if shown.len() < whole.len() { "..." } else { "" };
    format!("not read by netflow_parser ({}{cut})", shown.escape_debug())
}
