//! Names of addresses by reverse DNS, off by default.
//!
//! Who wants a name gets what is known at that moment, and never waits: an address that is not known is asked for by a
//! thread of its own, and a later flow has its name. What is known, what waits and what is under way is bounded.

mod answer;
mod asker;
mod breaker;
mod counters;
mod known;
mod pause;

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use ipnet::IpNet;
use prefix_trie::joint::JointPrefixSet;
use tokio::sync::mpsc;
use tokio::task::LocalSet;

use crate::config::HostNamesConfig;
use crate::telemetry::Metrics;

use asker::{Asker, Setup};
use counters::Counters;
use known::{Entry, Known, Limits};
use pause::Pause;

/// Questions that wait for a free slot: what 64 slots ask in a few seconds. Of an address that waits longer there is another
/// flow, or its name is of little use.
const QUESTIONS_MAX: usize = 10_000;

/// Names of addresses. Copies share what is known; the thread ends with the last one.
#[derive(Clone, Debug, Default)]
pub struct HostNames(Option<Arc<Names>>);

struct Names {
    known: Arc<Known>,
    questions: mpsc::Sender<Ipv6Addr>,
    /// Only addresses in these are asked for; none are all.
    prefixes: JointPrefixSet<IpNet>,
    pause: Arc<Pause>,
    counters: Counters,
}

impl HostNames {
    /// Starts the thread, if names are to be asked for.
    ///
    /// # Errors
    ///
    /// There is no DNS server in the configuration and in `/etc/resolv.conf`, or the system gives no thread.
    pub fn start(config: &HostNamesConfig, metrics: &Metrics) -> io::Result<Self> {
        let counters = Counters::new(metrics);
        if !config.enabled {
            return Ok(Self(None));
        }
        let known = Arc::new(Known::new(config.cache_size));
        counters.show_entries(&known, metrics);
        let pause = Arc::new(Pause::new(Instant::now()));
        let (questions, put) = mpsc::channel(QUESTIONS_MAX);
        let setup = Setup {
            servers: servers(config)?,
            timeout: config.timeout,
            concurrency: u32::try_from(config.concurrency).unwrap_or(u32::MAX),
            limits: Limits::new(config),
            known: Arc::clone(&known),
            pause: Arc::clone(&pause),
            counters: counters.clone(),
        };
        start_thread(setup, put)?;
        let prefixes = config.prefixes.iter().copied().collect();
        Ok(Self(Some(Arc::new(Names { known, questions, prefixes, pause, counters }))))
    }

    /// Whether any name will ever be known.
    #[must_use]
    pub const fn are_asked_for(&self) -> bool {
        self.0.is_some()
    }

    /// The name of an address, IPv4 mapped, if it is known. When it is not, or is old, it is asked for.
    #[must_use]
    pub fn name(&self, address: Ipv6Addr) -> Option<Arc<str>> {
        let names = self.0.as_ref()?;
        let now = Instant::now();
        let entry = names.known.get(&address);
        if entry.as_ref().is_none_or(|entry| entry.is_due(now)) {
            names.ask(address, entry.as_ref(), now);
        }
        entry?.name(now)
    }
}

impl Names {
    /// Puts a question, unless the address has no name by its kind, or there is no room.
    fn ask(&self, address: Ipv6Addr, before: Option<&Entry>, now: Instant) {
        if !self.is_wanted(address.to_canonical()) {
            return;
        }
        if self.pause.is_on(now) {
            return self.counters.paused.increment(1);
        }
        // Before anything is written, since this is where a scan of many addresses ends.
        if self.questions.capacity() == 0 {
            return self.counters.queue_full.increment(1);
        }
        self.known.insert(address, Entry::pending(before, now));
        if self.questions.try_send(address).is_err() {
            self.counters.queue_full.increment(1);
            match before {
                Some(before) => self.known.insert(address, before.clone()),
                None => drop(self.known.remove(&address)),
            }
        }
    }

    fn is_wanted(&self, address: IpAddr) -> bool {
        let is_of_nobody = match address {
            IpAddr::V4(v4) => v4.is_broadcast(),
            IpAddr::V6(_) => false,
        };
        !is_of_nobody
            && !address.is_unspecified()
            && !address.is_multicast()
            && !address.is_loopback()
            && (self.prefixes.is_empty() || self.prefixes.get_lpm(&address.into()).is_some())
    }
}

impl fmt::Debug for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Names").field("known", &self.known.len()).finish_non_exhaustive()
    }
}

/// The servers to ask.
fn servers(config: &HostNamesConfig) -> io::Result<Vec<SocketAddr>> {
    /// The port of DNS (RFC 1035 section 4.2).
    const DNS_PORT: u16 = 53;
    const RESOLV_CONF: &str = "/etc/resolv.conf";
    if !config.servers.is_empty() {
        return Ok(config.servers.clone());
    }
    let invalid = |why: String| {
        io::Error::other(format!("hostnames: {RESOLV_CONF}: {why}; set hostnames.servers"))
    };
    let text = std::fs::read(RESOLV_CONF).map_err(|error| invalid(error.to_string()))?;
    let (parsed, _other_lines) = resolv_conf::Config::parse_with_errors(&text);
    let servers: Vec<_> =
        parsed.nameservers.iter().map(|server| (IpAddr::from(server), DNS_PORT).into()).collect();
    if servers.is_empty() { Err(invalid("has no nameserver".to_owned())) } else { Ok(servers) }
}

/// The thread has a runtime of its own, so that questions do not wait for anything else.
fn start_thread(setup: Setup, put: mpsc::Receiver<Ipv6Addr>) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let asker = Asker::new(setup).map_err(io::Error::other)?;
    let work = move || LocalSet::new().block_on(&runtime, asker.run(put));
    // It ends when no question can come any more, and nobody waits for that.
    std::thread::Builder::new().name("hostnames".to_owned()).spawn(work).map(drop)
}
