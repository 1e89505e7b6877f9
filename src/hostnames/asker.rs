//! The thread that asks: takes questions, a bounded number at a time, and keeps the answers.

use std::cell::RefCell;
use std::collections::HashSet;
use std::net::{Ipv6Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{
    ConnectionConfig, NameServerConfig, ResolveHosts, ResolverConfig, ResolverOpts,
};
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::spawn_local;
use tracing::{info, warn};

use super::answer::Answer;
use super::breaker::Breaker;
use super::counters::Counters;
use super::known::{Entry, Known, Limits};
use super::pause::Pause;

/// What the thread works with.
pub(super) struct Asker {
    resolver: TokioResolver,
    timeout: Duration,
    concurrency: u32,
    limits: Limits,
    known: Arc<Known>,
    pause: Arc<Pause>,
    counters: Counters,
    breaker: RefCell<Breaker>,
    /// Addresses that wait for their answer.
    asked: RefCell<HashSet<Ipv6Addr>>,
}

/// What [`Asker::new`] takes.
pub(super) struct Setup {
    pub(super) servers: Vec<SocketAddr>,
    pub(super) timeout: Duration,
    pub(super) concurrency: u32,
    pub(super) limits: Limits,
    pub(super) known: Arc<Known>,
    pub(super) pause: Arc<Pause>,
    pub(super) counters: Counters,
}

impl Asker {
    pub(super) fn new(setup: Setup) -> Result<Self, NetError> {
        let Setup { servers, timeout, concurrency, limits, known, pause, counters } = setup;
        let resolver = resolver(&servers, timeout)?;
        let (breaker, asked) = <_>::default();
        Ok(Self { resolver, timeout, concurrency, limits, known, pause, counters, breaker, asked })
    }

    /// Works until nobody can put a question any more.
    pub(super) async fn run(self, mut questions: mpsc::Receiver<Ipv6Addr>) {
        let slots = Arc::new(Semaphore::new(self.concurrency as usize));
        let asker = Rc::new(self);
        while let Some(address) = questions.recv().await {
            let slots_needed =
                if asker.breaker.borrow().is_on_trial() { asker.concurrency } else { 1 };
            // Closed never: the semaphore lives as long as this loop.
            let Ok(slot) = Arc::clone(&slots).acquire_many_owned(slots_needed).await else {
                return;
            };
            if !asker.may_ask(address) {
                continue;
            }
            let asker = Rc::clone(&asker);
            spawn_local(async move {
                asker.ask(address).await;
                drop(slot);
            });
        }
    }

    /// Questions that were put before a pause began are dropped. What two readers put at the same time is asked once.
    fn may_ask(&self, address: Ipv6Addr) -> bool {
        if self.breaker.borrow().is_paused(Instant::now()) {
            self.known.remove(&address);
            self.counters.paused.increment(1);
            return false;
        }
        self.asked.borrow_mut().insert(address)
    }

    async fn ask(&self, address: Ipv6Addr) {
        let start = Instant::now();
        let question = self.resolver.reverse_lookup(address.to_canonical());
        let answer = tokio::time::timeout(self.timeout, question).await;
        let answer = answer.map_or(Answer::Silent, Answer::of);
        let now = Instant::now();
        self.counters.count(&answer, now - start);
        self.watch(&answer, now);
        let before = self.known.peek(&address);
        let entry = Entry::after(answer, before.as_ref(), self.limits, now);
        self.known.insert(address, entry);
        self.asked.borrow_mut().remove(&address);
    }

    /// Begins and ends the pause of all questions.
    fn watch(&self, answer: &Answer, now: Instant) {
        let mut breaker = self.breaker.borrow_mut();
        if *answer != Answer::Silent {
            if breaker.answered() {
                info!("A DNS server answers again.");
                self.pause.end();
                self.counters.is_paused.set(0.0);
            }
        } else if let Some(pause) = breaker.silent(now) {
            warn!(seconds = pause.as_secs(), "No DNS server answers, names are not asked for.");
            self.pause.begin(now + pause);
            self.counters.is_paused.set(1.0);
        }
    }
}

/// Each server has its part of the timeout. What is kept, and what is asked again, is decided here and not there.
fn resolver(servers: &[SocketAddr], timeout: Duration) -> Result<TokioResolver, NetError> {
    let count = servers.len().max(1);
    let mut options = ResolverOpts::default();
    options.timeout = timeout / u32::try_from(count).unwrap_or(1);
    options.attempts = count - 1;
    options.num_concurrent_reqs = 1;
    options.cache_size = 0;
    options.use_hosts_file = ResolveHosts::Never;
    let config = ResolverConfig::from_name_servers(servers.iter().map(server).collect());
    let provider = TokioRuntimeProvider::default();
    TokioResolver::builder_with_config(config, provider).with_options(options).build()
}

/// Over TCP what does not fit a datagram (RFC 7766).
fn server(address: &SocketAddr) -> NameServerConfig {
    let with_port = |mut connection: ConnectionConfig| {
        connection.port = address.port();
        connection
    };
    let connections = [ConnectionConfig::udp(), ConnectionConfig::tcp()].map(with_port);
    NameServerConfig::new(address.ip(), true, connections.into())
}
