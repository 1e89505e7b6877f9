//! IP fragments put together again, as the kernel of a collector does before its socket sees a
//! datagram. Exporters do send datagrams above the MTU, and losing their tails would lose flows.

use std::collections::{HashMap, VecDeque};

use etherparse::IpNumber;
use etherparse::defrag::IpDefragBuf;

use super::Datagram;
use super::packet::{Fragment, FragmentKey, Udp};
use super::skipped::{Skip, Skipped};

/// Datagrams being put together at once. At 64 KiB each that is 64 MiB at most; Linux allows 4 MiB.
const PENDING_MAX: usize = 1024;
/// RFC 8200 section 4.5: a datagram not complete after 60 seconds is abandoned. Identifications
/// repeat, so an older remainder would be mixed into another datagram.
const PENDING_AGE_MAX_NS: i64 = 60_000_000_000;

/// Datagrams of which some fragments are still missing.
#[derive(Debug, Default)]
pub(super) struct Reassembly {
    pending: HashMap<FragmentKey, Pending>,
    /// Order of arrival, for eviction; completed datagrams leave their entry behind until its turn.
    order: VecDeque<(u64, FragmentKey)>,
    /// Number of datagrams begun: tells an entry of `order` from a later one with the same key.
    begun: u64,
}

#[derive(Debug)]
struct Pending {
    buffer: IpDefragBuf,
    started_unix_ns: i64,
    serial: u64,
}

impl Reassembly {
    /// Adds a fragment and yields the datagram that it completes. Counts those given up for it.
    pub(super) fn add(
        &mut self,
        fragment: &Fragment<'_>,
        time_unix_ns: i64,
        skipped: &mut Skipped,
    ) -> Result<Option<Datagram>, Skip> {
        skipped.fragments_incomplete += self.expire(&fragment.key, time_unix_ns);
        if !self.pending.contains_key(&fragment.key) {
            skipped.fragments_incomplete += self.make_room();
            self.begin(fragment.key, time_unix_ns);
        }
        let Some(pending) = self.pending.get_mut(&fragment.key) else {
            return Ok(None);
        };
        pending
            .buffer
            .add(fragment.offset, fragment.has_more, fragment.payload)
            .map_err(|_| Skip::Malformed)?;
        if !pending.buffer.is_complete() {
            return Ok(None);
        }
        let udp = Udp::of_ip_payload(&fragment.key, pending.buffer.data())
            .map(|udp| udp.to_datagram(time_unix_ns));
        self.pending.remove(&fragment.key);
        udp.map(Some)
    }

    /// The end of the file: gives up what is pending and says how many datagrams that were.
    pub(super) fn abandon(&mut self) -> u64 {
        let count = self.pending.len() as u64;
        self.pending.clear();
        self.order.clear();
        count
    }

    /// Gives up a remainder that is too old to belong to the same datagram.
    fn expire(&mut self, key: &FragmentKey, now_unix_ns: i64) -> u64 {
        let is_stale = self.pending.get(key).is_some_and(|pending| {
            now_unix_ns.saturating_sub(pending.started_unix_ns) > PENDING_AGE_MAX_NS
        });
        if is_stale {
            self.pending.remove(key);
        }
        u64::from(is_stale)
    }

    /// Gives up the oldest when there are too many.
    fn make_room(&mut self) -> u64 {
        let mut lost = 0;
        while self.order.len() >= PENDING_MAX {
            let Some((serial, key)) = self.order.pop_front() else {
                break;
            };
            if self.pending.get(&key).is_some_and(|pending| pending.serial == serial) {
                self.pending.remove(&key);
                lost += 1;
            }
        }
        lost
    }

    fn begin(&mut self, key: FragmentKey, started_unix_ns: i64) {
        self.begun += 1;
        let buffer = IpDefragBuf::new(IpNumber::UDP, Vec::new(), Vec::new());
        self.pending.insert(key, Pending { buffer, started_unix_ns, serial: self.begun });
        self.order.push_back((self.begun, key));
    }
}
