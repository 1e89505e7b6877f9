//! The exporters that were heard, each with its account and its templates, shared by every reader.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use super::account::{Account, Received};
use super::interfaces::{Interface, Interfaces};
use super::options::{Announced, AnnouncedInAll};
use super::rates::AnnouncedRate;
use super::session::{Session, SessionCounts};
use super::tally::{Protocol, Tally};
use super::template::{Template, TemplateInfo, Templates};
use super::template_counts::TemplateCounts;
use super::waiting::WaitingCounts;

/// Addresses that state is kept for. A network of 16,384 exporters is larger than any that flows are
/// collected from by one process; a spoofer costs at most a few MiB of accounts.
pub(super) const EXPORTERS_MAX: usize = 16_384;

/// When there are so many, those that were not heard for this long make room.
const IDLE_MAX_MS: i64 = 600_000;

/// Who is idle is looked at no more often than this, however many new addresses come.
const SWEEP_INTERVAL_MS: i64 = 1_000;

/// Old templates are looked for no more often than this.
const EXPIRY_INTERVAL_MS: u64 = 60_000;

/// Between two looks lies so much only when the clock was set in between.
const CLOCK_STEP_MS: u64 = 10 * EXPIRY_INTERVAL_MS;

/// Exporters repeat their templates within this.
const CLOCK_PAUSE_MS: i64 = 3_600_000;

/// One address that sent datagrams.
#[derive(Debug)]
pub struct Exporter {
    address: IpAddr,
    address_text: String,
    /// Uncontended but for exporters that several sockets share, and the management server's reads.
    account: Mutex<Account>,
    /// How many domains all accounts list.
    listed_domains_in_all: Arc<AtomicUsize>,
    last_seen_ms: AtomicI64,
    /// It made room for another: readers that still know it must look again.
    is_forgotten: AtomicBool,
    /// Of all its sessions together.
    counts: SessionCounts,
    /// Of all its datagrams.
    datagrams: Arc<Session>,
    /// Its connections, each a session of its own, hold this as long as they last.
    connections: Arc<()>,
    /// What options records say holds for the exporter, whatever session they came in.
    pub(super) announced: Announced,
    interfaces: Interfaces,
}

/// Whose messages are numbered together.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) struct SequenceKey {
    pub(super) protocol: Protocol,
    /// Observation domain, source id, engine or sub-agent.
    pub(super) domain_id: u32,
    /// The agent of sFlow, which may not be the sender.
    pub(super) agent: Option<IpAddr>,
}

/// What all exporters together have, against limits that spoofers cannot raise.
#[derive(Debug, Default)]
struct InAll {
    /// Observation domains.
    domains: Arc<AtomicUsize>,
    /// Memory of templates.
    template_bytes: Arc<AtomicUsize>,
    /// Sequences that are watched.
    sequences: Arc<AtomicUsize>,
    waiting: WaitingCounts,
    /// Interfaces of sFlow counter samples.
    interfaces: Arc<AtomicUsize>,
    announced: AnnouncedInAll,
    /// Observation domains that accounts list.
    listed_domains: Arc<AtomicUsize>,
}

/// All exporters of the process.
#[derive(Debug)]
pub struct Exporters {
    by_address: RwLock<HashMap<IpAddr, Arc<Exporter>>>,
    /// The account of every exporter beyond the limit.
    others: Arc<Exporter>,
    refused: AtomicU64,
    /// Sets that waited for templates of exporters that were forgotten, until somebody counts them.
    forgotten: Mutex<Vec<(Protocol, Tally)>>,
    swept_ms: AtomicI64,
    expired_ms: AtomicI64,
    /// Not before this, since the clock was set.
    expire_from_ms: AtomicI64,
    in_all: InAll,
}

impl Default for Exporters {
    fn default() -> Self {
        let in_all = InAll::default();
        Self {
            by_address: RwLock::default(),
            others: Arc::new(Exporter::new(Ipv4Addr::UNSPECIFIED.into(), &in_all)),
            refused: AtomicU64::new(0),
            forgotten: Mutex::default(),
            swept_ms: AtomicI64::new(i64::MIN),
            expired_ms: AtomicI64::new(i64::MIN),
            expire_from_ms: AtomicI64::new(i64::MIN),
            in_all,
        }
    }
}

impl Exporters {
    /// The exporter at `address`, or `None` when the limit is reached and all others are active.
    pub(super) fn get(&self, address: IpAddr, now_ms: i64) -> Option<Arc<Exporter>> {
        let known = self.by_address.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(exporter) = known.get(&address) {
            return Some(Arc::clone(exporter));
        }
        drop(known);
        let mut known = self.by_address.write().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= EXPORTERS_MAX && !known.contains_key(&address) {
            self.forget_idle(&mut known, now_ms);
        }
        self.add(&mut known, address, now_ms)
    }

    /// The exporter at `address`; nobody is forgotten for it.
    pub(super) fn get_if_room(&self, address: IpAddr, seen_ms: i64) -> Option<Arc<Exporter>> {
        let mut known = self.by_address.write().unwrap_or_else(PoisonError::into_inner);
        self.add(&mut known, address, seen_ms)
    }

    fn add(
        &self,
        known: &mut HashMap<IpAddr, Arc<Exporter>>,
        address: IpAddr,
        seen_ms: i64,
    ) -> Option<Arc<Exporter>> {
        if known.len() >= EXPORTERS_MAX && !known.contains_key(&address) {
            return None;
        }
        let new = || {
            let exporter = Exporter::new(address, &self.in_all);
            exporter.last_seen_ms.store(seen_ms, Ordering::Relaxed);
            Arc::new(exporter)
        };
        Some(Arc::clone(known.entry(address).or_insert_with(new)))
    }

    fn forget_idle(&self, known: &mut HashMap<IpAddr, Arc<Exporter>>, now_ms: i64) {
        if now_ms.abs_diff(self.swept_ms.load(Ordering::Relaxed)) < SWEEP_INTERVAL_MS.unsigned_abs()
        {
            return;
        }
        self.swept_ms.store(now_ms, Ordering::Relaxed);
        known.retain(|_, exporter| {
            let is_active =
                now_ms - exporter.last_seen_ms() < IDLE_MAX_MS || exporter.is_connected();
            exporter.is_forgotten.store(!is_active, Ordering::Relaxed);
            if !is_active {
                self.drop_waiting_of(exporter);
            }
            is_active
        });
    }

    fn drop_waiting_of(&self, exporter: &Exporter) {
        exporter.datagrams.expire_waiting(i64::MAX, |protocol, tally| {
            let mut forgotten = self.forgotten.lock().unwrap_or_else(PoisonError::into_inner);
            match forgotten.iter_mut().find(|(known, _)| *known == protocol) {
                Some((_, sum)) => sum.add(tally),
                None => forgotten.push((protocol, tally.clone())),
            }
        });
    }

    /// What was dropped of exporters that were forgotten, by protocol; whoever takes it counts it.
    pub(super) fn take_forgotten(&self) -> Vec<(Protocol, Tally)> {
        std::mem::take(&mut *self.forgotten.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Forgets templates that were not seen for a day, and tells `note` by protocol. Every reader may ask, as
    /// often as it likes.
    pub(super) fn expire_templates(&self, now_ms: i64, mut note: impl FnMut(Protocol, &Tally)) {
        let before_ms = self.expired_ms.load(Ordering::Relaxed);
        let since_ms = now_ms.abs_diff(before_ms);
        if since_ms < EXPIRY_INTERVAL_MS
            || self.expired_ms.swap(now_ms, Ordering::Relaxed) != before_ms
        {
            return;
        }
        if before_ms != i64::MIN && since_ms > CLOCK_STEP_MS {
            // The clock was set, or the host slept: all templates look old until they are used again.
            self.expire_from_ms.store(now_ms.saturating_add(CLOCK_PAUSE_MS), Ordering::Relaxed);
        }
        if now_ms < self.expire_from_ms.load(Ordering::Relaxed) {
            return;
        }
        for exporter in self.known() {
            exporter.expire_templates(now_ms, &mut note);
        }
    }

    /// The exporter that accounts for those beyond the limit; counts that it was needed.
    pub(super) fn others(&self) -> Arc<Exporter> {
        self.refused.fetch_add(1, Ordering::Relaxed);
        Arc::clone(&self.others)
    }

    /// Every exporter; one at `0.0.0.0` stands for those beyond the limit, if there are any.
    #[must_use]
    pub fn list(&self) -> Vec<Arc<Exporter>> {
        let mut list = self.known();
        if self.refused() > 0 {
            list.push(Arc::clone(&self.others));
        }
        list
    }

    /// How many exporters state is kept for.
    #[must_use]
    pub fn count(&self) -> usize {
        self.by_address.read().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Templates of all exporters.
    #[must_use]
    pub fn template_count(&self) -> usize {
        self.list().iter().map(|exporter| exporter.template_count()).sum()
    }

    /// Data sets that wait for their template, and their bytes.
    #[must_use]
    pub fn waiting(&self) -> (usize, usize) {
        let WaitingCounts { sets_in_all, bytes_in_all, .. } = &self.in_all.waiting;
        (sets_in_all.load(Ordering::Relaxed), bytes_in_all.load(Ordering::Relaxed))
    }

    /// Grows with every template, sampling rate and start time that is new, has changed or is gone.
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.in_all.announced.changes.load(Ordering::Relaxed)
    }

    /// Those that state is kept for.
    pub(super) fn known(&self) -> Vec<Arc<Exporter>> {
        let known = self.by_address.read().unwrap_or_else(PoisonError::into_inner);
        known.values().map(Arc::clone).collect()
    }

    /// Datagrams of exporters beyond the limit.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }
}

impl Exporter {
    fn new(address: IpAddr, in_all: &InAll) -> Self {
        let counts = SessionCounts {
            templates: TemplateCounts::of_new_exporter(
                &in_all.template_bytes,
                &in_all.announced.changes,
            ),
            waiting: in_all.waiting.of_new_exporter(),
            domains_in_all: Arc::clone(&in_all.domains),
            sequences_in_all: Arc::clone(&in_all.sequences),
        };
        Self {
            address,
            address_text: address.to_string(),
            account: Mutex::default(),
            listed_domains_in_all: Arc::clone(&in_all.listed_domains),
            last_seen_ms: AtomicI64::new(0),
            is_forgotten: AtomicBool::new(false),
            datagrams: Arc::new(Session::new(counts.clone())),
            counts,
            connections: Arc::default(),
            announced: Announced::new(&in_all.announced),
            interfaces: Interfaces::new(Arc::clone(&in_all.interfaces)),
        }
    }

    /// Its address.
    #[must_use]
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// The session of all its datagrams.
    pub(super) fn datagrams(&self) -> &Arc<Session> {
        &self.datagrams
    }

    /// The session of a new connection from it, and what keeps the exporter from being forgotten while that
    /// lasts. Its templates do not outlive it, so they are no change of what is kept over a restart.
    pub(super) fn connect(&self) -> (Arc<Session>, Arc<()>) {
        let mut counts = self.counts.clone();
        counts.templates.changes = Arc::default();
        (Arc::new(Session::new(counts)), Arc::clone(&self.connections))
    }

    fn is_connected(&self) -> bool {
        Arc::strong_count(&self.connections) > 1
    }

    pub(super) fn is_forgotten(&self) -> bool {
        self.is_forgotten.load(Ordering::Relaxed)
    }

    /// Its address as the column `exporterAddr` has it.
    pub(super) fn address_text(&self) -> &str {
        &self.address_text
    }

    /// What it sent.
    #[must_use]
    pub fn account(&self) -> Account {
        self.lock_account().clone()
    }

    /// When its last datagram was received, milliseconds since 1970.
    #[must_use]
    pub fn last_seen_ms(&self) -> i64 {
        self.last_seen_ms.load(Ordering::Relaxed)
    }

    /// Templates that it announced, over all its observation domains.
    #[must_use]
    pub fn template_count(&self) -> usize {
        self.counts.templates.of_exporter.load(Ordering::Relaxed)
    }

    /// Its interfaces as its sFlow agents last reported them, in the order of agent and ifIndex.
    #[must_use]
    pub fn interfaces(&self) -> Vec<Interface> {
        self.interfaces.list()
    }

    /// How many there are.
    #[must_use]
    pub fn interface_count(&self) -> usize {
        self.interfaces.count()
    }

    /// Its templates, by protocol, domain and id; those of TCP connections are not among them.
    #[must_use]
    pub fn templates(&self) -> Vec<TemplateInfo> {
        let of_domain = |((protocol, domain_id), templates): ((Protocol, u32), Arc<Templates>)| {
            let info = move |it: Arc<Template>| TemplateInfo::of(protocol, domain_id, &it);
            templates.list().into_iter().map(info)
        };
        let mut list: Vec<_> = self.datagrams.domains().into_iter().flat_map(of_domain).collect();
        list.sort_by_key(|template| (template.protocol, template.domain_id, template.id));
        list
    }

    /// The sampling rates that it announced and that still count at `now_ms`.
    #[must_use]
    pub fn announced_rates(&self, now_ms: i64) -> Vec<AnnouncedRate> {
        let rates = self.announced.rates.list(now_ms);
        let mut rates: Vec<_> = rates.iter().map(AnnouncedRate::of).collect();
        rates.sort_by_key(|rate| (rate.domain_id, rate.sampler_id));
        rates
    }

    /// What it counts of itself and said within a day: domain, IANA's name of the element, number.
    #[must_use]
    pub fn statistics(&self, now_ms: i64) -> Vec<(u32, &'static str, u64)> {
        self.announced.statistics.list(now_ms)
    }

    pub(super) fn known_interfaces(&self) -> &Interfaces {
        &self.interfaces
    }

    /// Adds one datagram to its account.
    pub(super) fn note(&self, entry: &Received<'_>) {
        self.last_seen_ms.store(entry.received_ms, Ordering::Relaxed);
        self.lock_account().add(entry, &self.listed_domains_in_all);
    }

    /// Adds what became of earlier datagrams.
    pub(super) fn note_more(&self, tally: &Tally) {
        self.lock_account().tally.add(tally);
    }

    /// Those of connections stay: they were announced once, RFC 7011 section 8.
    fn expire_templates(&self, now_ms: i64, mut note: impl FnMut(Protocol, &Tally)) {
        for ((protocol, _), templates) in self.datagrams.domains() {
            let templates_expired = templates.expire(now_ms);
            if templates_expired > 0 {
                let mut tally = Tally::default();
                tally.templates_expired = templates_expired;
                self.note_more(&tally);
                note(protocol, &tally);
            }
        }
        self.datagrams.forget_empty();
    }

    fn lock_account(&self) -> MutexGuard<'_, Account> {
        self.account.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What makes room for another takes the domains that its account lists with it.
impl Drop for Exporter {
    fn drop(&mut self) {
        let listed = self.lock_account().domains.len();
        self.listed_domains_in_all.fetch_sub(listed, Ordering::Relaxed);
    }
}
