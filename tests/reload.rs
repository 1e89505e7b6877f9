//! A running collector follows its configuration: no row is lost or of two configurations at once, and what is not
//! touched goes on.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::fmt::Write as _;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::scope;
use std::time::Duration;

use common::{
    Collector, Scrape, clickhouse, clickhouse_with, config, config_text, get, number_of,
    query_number, query_row, say, start, target, wait_until,
};
use tidegate::app::App;
use tidegate::config::Config;
use tidegate::devserver::{DevServer, DevServerOptions};
use tidegate::traffic::{self, Pace, Spec, Totals, Transport};

/// Without `RELOADS`.
const RELOADS: u64 = 100;

/// Without `RELOAD_RATE`.
const FLOWS_PER_SECOND: u64 = 50_000;

const PAUSE: Duration = Duration::from_millis(50);

fn parse(text: &str) -> Result<Config, tidegate::config::ConfigErrors> {
    Config::parse(text, Path::new("tidegate.toml"), Vec::new())
}

/// Configuration number `version`: what says it must not be mixed in any row.
fn version(server: &DevServer, prefixes: &Path, version: u64) -> String {
    std::fs::write(prefixes, format!("prefix,site\n0.0.0.0/0,v{version}\n::/0,v{version}\n"))
        .unwrap();
    let mut more = format!(
        "[identity]\nzone = \"v{version}\"\n\
         [[exporters]]\naddress = \"0.0.0.0/0\"\nname = \"v{version}\"\n\
         [enrichment]\nprefixes = {prefixes:?}\n\
         [clickhouse.batch]\nmax-rows = {}\nqueue-capacity = {}\n",
        20_000 + version,
        1_000_000 + version,
    );
    if version % 2 == 1 {
        writeln!(more, "[receivers.extra]\nlisten = \"127.0.0.1:0\"\nworkers = 1").unwrap();
    }
    config_text(&server.http_url(), &more)
}

#[test]
fn a_hundred_reloads_under_load_lose_no_row_and_mix_none() {
    let reloads = number_of("RELOADS", RELOADS);
    let rate = number_of("RELOAD_RATE", FLOWS_PER_SECOND);
    let (server, folder) = (clickhouse(), tempfile::tempdir().unwrap());
    let prefixes = folder.path().join("prefixes.csv");
    let mut app = App::start(&config(&version(&server, &prefixes, 0))).unwrap();
    let (totals, stop, main) = (Totals::default(), AtomicBool::new(false), target(&app));
    let extra = Totals::default();
    let pace = Pace { flows_per_second: rate, duration: None };
    scope(|scope| {
        let _stop = StopOnDrop(&stop);
        let sending =
            scope.spawn(|| traffic::run(&Spec::default(), main, pace, &stop, &totals).unwrap());
        for number in 1..=reloads {
            app.reload(parse(&version(&server, &prefixes, number))).unwrap();
            assert_eq!(address_of(&app, "test"), Some(main));
            let added = address_of(&app, "extra");
            assert_eq!(added.is_some(), number % 2 == 1);
            if let Some(address) = added {
                send_to_extra(&app, address, number, &extra);
            }
            std::thread::sleep(PAUSE);
        }
        stop.store(true, Ordering::Relaxed);
        sending.join().unwrap();
    });
    let sent = totals.read().flows + extra.read().flows;
    wait_until("all is stored", || app.view().ledger.books().stored == sent);
    let scrape = Scrape::of(&app);
    assert_eq!(scrape.sum("tidegate_reloads_total", &["outcome=\"applied\""]), reloads);
    assert_eq!(scrape.sum("tidegate_receive_kernel_dropped_datagrams_total", &[]), 0);
    assert_eq!(scrape.sum("tidegate_batch_queue_capacity_rows", &[]), 1_000_000 + reloads);
    assert_eq!(app.stop().books.stored, sent);
    assert_eq!(query_number(&server, "SELECT count() FROM tidegate.flows"), sent);
    let mixed = "zone != exporterName OR zone != srcSite OR zone != dstSite";
    let columns = format!("countIf({mixed}), uniqExact(zone)");
    let row = query_row(&server, &format!("SELECT {columns} FROM tidegate.flows"));
    say(&format!("{sent} rows of {} configurations, {} mixed", row[1], row[0]));
    assert_eq!(row[0], "0");
    // On a busy machine one may have no time for a row.
    assert!(row[1].parse::<u64>().unwrap() > reloads * 9 / 10, "{row:?}");
}

/// Ends the sender when the test fails, too: it would be waited for.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn address_of(app: &App, name: &str) -> Option<SocketAddr> {
    app.receivers().into_iter().find(|(known, _)| known == name).map(|(_, address)| address)
}

/// Some flows to a receiver that is there until the next reload.
fn send_to_extra(app: &App, address: SocketAddr, number: u64, totals: &Totals) {
    let spec = Spec { flows: Some(100), seed: number, ..Spec::default() };
    let pace = Pace { flows_per_second: 1_000_000, duration: None };
    let received =
        || Scrape::of(app).sum("tidegate_receive_datagrams_total", &["receiver=\"extra\""]);
    let before = totals.read().datagrams;
    traffic::run(&spec, address, pace, &AtomicBool::new(false), totals).unwrap();
    let wanted = totals.read().datagrams;
    assert!(wanted > before);
    wait_until("the added receiver has all", || received() == wanted);
}

fn flows(to: SocketAddr, flows: u64, transport: Transport) {
    let spec = match transport {
        Transport::Udp => Spec { flows: Some(flows), transport, ..Spec::default() },
        Transport::Tcp => {
            let protocol = traffic::Protocol::Ipfix;
            Spec { flows: Some(flows), transport, protocol, ..Spec::default() }
        }
    };
    let pace = Pace { flows_per_second: 20_000, duration: None };
    traffic::run(&spec, to, pace, &AtomicBool::new(false), &Totals::default()).unwrap();
}

#[test]
fn receivers_are_added_removed_moved_and_rebound_and_the_others_keep_their_sockets() {
    let server = clickhouse();
    let free = || UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (fixed, moved) = (free(), free());
    let text = |receivers: &str| config_text(&server.http_url(), receivers);
    let udp = |name: &str, address: SocketAddr, workers: usize| {
        format!("[receivers.{name}]\nlisten = \"{address}\"\nworkers = {workers}\n")
    };
    let mut app = App::start(&config(&text(&udp("other", fixed, 1)))).unwrap();
    let mut stored = 0;
    let mut deliver = |app: &App, name: &str, transport| {
        flows(address_of(app, name).unwrap(), 1_000, transport);
        stored += 1_000;
        wait_until("the flows are stored", || app.view().ledger.books().stored == stored);
    };
    let main = address_of(&app, "test").unwrap();
    deliver(&app, "other", Transport::Udp);
    // Another number of sockets on the same port.
    app.reload(parse(&text(&udp("other", fixed, 2)))).unwrap();
    deliver(&app, "other", Transport::Udp);
    // Another port, and TCP beside it.
    let tcp = "[receivers.tcp]\nlisten = \"127.0.0.1:0\"\ntransport = \"tcp\"\n";
    app.reload(parse(&text(&(udp("other", moved, 1) + tcp)))).unwrap();
    deliver(&app, "other", Transport::Udp);
    deliver(&app, "tcp", Transport::Tcp);
    // The port of before is free.
    drop(UdpSocket::bind(fixed).unwrap());
    // Another receiver on the port of one that leaves.
    app.reload(parse(&text(&udp("heir", moved, 1)))).unwrap();
    deliver(&app, "heir", Transport::Udp);
    assert_eq!(app.receivers().len(), 2);
    assert_eq!(address_of(&app, "test"), Some(main));
    deliver(&app, "test", Transport::Udp);
    let status: serde_json::Value =
        serde_json::from_str(&get(app.management_address(), "/api/v1/status").1).unwrap();
    let names: Vec<_> = status["receivers"].as_object().unwrap().keys().cloned().collect();
    assert_eq!(names, ["heir", "test"]);
    let stopped = app.stop();
    assert!(stopped.is_drained);
    assert_eq!(stopped.books.stored, stored);
}

/// Users of a server whose table takes rows of one of them only.
const USERS: &str = "<clickhouse><users_config>config.xml</users_config><profiles><default/></profiles>\
    <quotas><default/></quotas><users>\
    <default><password></password><networks><ip>127.0.0.1</ip></networks></default>\
    <old><password>old-word</password><networks><ip>127.0.0.1</ip></networks></old>\
    <new><password>new-word</password><networks><ip>127.0.0.1</ip></networks></new>\
    </users></clickhouse>";

#[test]
fn another_user_inserts_from_the_next_batch_on() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config.xml");
    std::fs::write(&file, USERS).unwrap();
    let server = clickhouse_with(&DevServerOptions {
        config_file: Some(file),
        ..DevServerOptions::default()
    });
    let login = |user: &str| {
        config_text(
            &server.http_url(),
            &format!("username = \"{user}\"\npassword = \"{user}-word\"\n"),
        )
    };
    let mut app = start(&server.http_url(), "username = \"old\"\npassword = \"old-word\"\n");
    flows(target(&app), 100, Transport::Udp);
    wait_until("the rows are stored", || app.view().ledger.books().stored == 100);
    let check = "ALTER TABLE tidegate.flows ADD CONSTRAINT who CHECK currentUser() = 'new'";
    server.query(check).unwrap();
    app.reload(parse(&login("new"))).unwrap();
    flows(target(&app), 100, Transport::Udp);
    wait_until("the rows are stored", || app.view().ledger.books().stored == 200);
    assert_eq!(app.stop().books.dead_lettered, 0);
}

#[test]
fn sighup_and_the_interval_read_the_file_anew_and_the_log_level_with_it() {
    let server = clickhouse();
    let text = |more: &str| config_text(&server.http_url(), more);
    let mut collector = Collector::start(&text("[reload]\ninterval = \"1s\"\n"));
    let applied = |collector: &Collector| {
        Scrape::at(collector.management).sum("tidegate_reloads_total", &["outcome=\"applied\""])
    };
    // The file is looked at by itself.
    collector.configure(&text("[log]\nlevel = \"debug\"\n"));
    wait_until("the file is read", || applied(&collector) == 1);
    wait_until("the level is debug", || collector.log().contains("DEBUG"));
    // From now on only SIGHUP reads it.
    collector.configure(&text("[identity]\nzone = \"b\"\n[state]\ndirectory = \"/s\"\n"));
    collector.signal("HUP");
    wait_until("the file is read", || applied(&collector) == 2);
    assert!(collector.log().contains("key=\"state\""), "{}", collector.log());
    // A wrong one is said with line and key, and changes nothing.
    collector.configure(&text("[identity]\nzome = \"c\"\n"));
    collector.signal("HUP");
    let refused =
        || Scrape::at(collector.management).sum("tidegate_reloads_total", &["outcome=\"refused\""]);
    wait_until("the file is refused", || refused() == 1);
    assert!(collector.log().contains("identity.zome: unknown key; did you mean zone?"));
    flows(collector.target, 100, Transport::Udp);
    collector.signal("TERM");
    let (code, log) = collector.wait();
    assert_eq!(code, Some(0), "{log}");
    let zones = "SELECT count(), uniqExact(zone), any(zone) FROM tidegate.flows";
    assert_eq!(query_row(&server, zones), ["100", "1", "b"]);
}
