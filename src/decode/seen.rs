//! What became of each set of a datagram, for `tidegate inspect`.
//!
//! A [`Tally`] is of a whole datagram. A decoder that watches keeps one of each set beside it; one that does
//! not asks once a set whether it does.

use std::mem;

use super::message::SET_HEADER_BYTES;
use super::tally::{Protocol, Tally};
use super::template::{Template, TemplateInfo};

/// One set as the decoder walked it.
#[derive(Clone, Debug)]
pub struct SeenSet {
    /// Its id: of a template, or of a kind of templates.
    pub id: u16,
    /// Where it begins in the datagram, its header included.
    pub offset: usize,
    /// Its bytes, header included. More than the message says, for a last set that its message cuts.
    pub length: usize,
    /// What became of it alone. A data set that is neither decoded nor dropped waits for its template.
    pub tally: Tally,
    /// Templates of it that were new or differed from the known one, in order.
    pub learned: Vec<TemplateInfo>,
}

/// The sets of the datagram that is being decoded.
#[derive(Debug, Default)]
pub(super) struct Watch {
    /// Bytes of the datagram.
    payload_bytes: usize,
    pub(super) sets: Vec<SeenSet>,
    /// The tally of the datagram while that of a set is taken.
    outside: Tally,
}

impl Watch {
    /// A datagram begins.
    pub(super) fn of(&mut self, payload: &[u8]) -> &mut Self {
        self.payload_bytes = payload.len();
        self
    }

    /// A set begins; `bytes_behind` are left of the datagram behind it.
    pub(super) fn begin(
        &mut self,
        id: u16,
        body_bytes: usize,
        bytes_behind: usize,
        tally: &mut Tally,
    ) {
        let length = SET_HEADER_BYTES + body_bytes;
        let offset = self.payload_bytes.saturating_sub(bytes_behind + length);
        self.outside = mem::take(tally);
        self.sets.push(SeenSet {
            id,
            offset,
            length,
            tally: Tally::default(),
            learned: Vec::new(),
        });
    }

    /// A template of the set was learned.
    pub(super) fn note_learned(&mut self, protocol: Protocol, domain_id: u32, template: &Template) {
        if let Some(set) = self.sets.last_mut() {
            set.learned.push(TemplateInfo::of(protocol, domain_id, template));
        }
    }

    /// The set ends; `tally` is of the datagram again.
    pub(super) fn end(&mut self, tally: &mut Tally) {
        let of_set = mem::replace(tally, mem::take(&mut self.outside));
        tally.add(&of_set);
        if let Some(set) = self.sets.last_mut() {
            set.tally = of_set;
        }
    }
}
