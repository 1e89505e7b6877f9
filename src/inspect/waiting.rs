//! Sets that wait for their template, to be shown when it comes.

use super::library::Key;

/// As much as tidegate's decoder keeps of all exporters. What is beyond was shown as bytes, and stays so.
const WAITING_BYTES_MAX: usize = 64 << 20;

/// Memory of a set beside its bytes.
const SET_OVERHEAD_BYTES: usize = 64;

#[derive(Debug, Default)]
pub(super) struct Waiting {
    sets: Vec<WaitingSet>,
    bytes: usize,
}

/// A set, header included.
#[derive(Debug)]
pub(super) struct WaitingSet {
    key: Key,
    pub(super) template_id: u16,
    /// The datagram that it came in.
    pub(super) number: u64,
    pub(super) bytes: Box<[u8]>,
}

impl Waiting {
    pub(super) fn keep(&mut self, key: Key, template_id: u16, number: u64, bytes: &[u8]) {
        let cost = bytes.len() + SET_OVERHEAD_BYTES;
        if self.bytes + cost <= WAITING_BYTES_MAX {
            self.bytes += cost;
            self.sets.push(WaitingSet { key, template_id, number, bytes: bytes.into() });
        }
    }

    /// Takes what waited for a template, in order.
    pub(super) fn take(&mut self, key: &Key, template_id: u16) -> Vec<WaitingSet> {
        let is_meant = |set: &mut WaitingSet| set.key == *key && set.template_id == template_id;
        let taken: Vec<_> = self.sets.extract_if(.., is_meant).collect();
        self.bytes -= taken.iter().map(|set| set.bytes.len() + SET_OVERHEAD_BYTES).sum::<usize>();
        taken
    }
}
