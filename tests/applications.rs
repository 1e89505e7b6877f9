//! Rules for applications: what is written is what applies, as a reader who goes from the first rule to the last
//! would say, and mistakes are told with their lines.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;

use fastrand::Rng;
use ipnet::IpNet;
use tidegate::enrich::applications::{RULES_MAX, Rules, Side};

const RULE_SETS: u64 = 200;
const FLOWS: usize = 500;

/// A rule, and how it is read by hand.
#[derive(Debug, Default)]
struct PlainRule {
    protocols: Vec<u8>,
    ports: Vec<RangeInclusive<u16>>,
    prefixes: Vec<IpNet>,
    peers: Vec<IpNet>,
    exporters: Vec<IpNet>,
}

#[derive(Clone, Copy, Debug)]
struct Flow {
    exporter: IpAddr,
    protocol: u8,
    src: (IpAddr, u16),
    dst: (IpAddr, u16),
}

impl PlainRule {
    fn random(rng: &mut Rng) -> Self {
        let mut some = |most: usize| if rng.u8(0..4) == 0 { 0 } else { rng.usize(1..=most) };
        let [protocols, ports, prefixes, peers, exporters] =
            [some(2), some(3), some(3), some(2), some(2)];
        let has_ports = ports > 0;
        let protocol = |rng: &mut Rng| match has_ports {
            true => *rng.choice(&[6, 17, 33, 132]).unwrap(),
            false => *rng.choice(&[6, 17, 1, 47]).unwrap(),
        };
        let mut rule = Self::default();
        rule.protocols.extend((0..protocols).map(|_| protocol(rng)));
        rule.ports.extend((0..ports).map(|_| ports_of(rng)));
        rule.prefixes.extend((0..prefixes).map(|_| prefix(rng)));
        rule.peers.extend((0..peers).map(|_| prefix(rng)));
        rule.exporters.extend((0..exporters).map(|_| prefix(rng)));
        rule
    }

    fn applies(&self, flow: &Flow) -> bool {
        let either = [(flow.dst, flow.src), (flow.src, flow.dst)];
        let is_any = |(service, peer): ((IpAddr, u16), (IpAddr, u16))| {
            self.takes_port(flow.protocol, service.1)
                && covers(&self.prefixes, service.0)
                && covers(&self.peers, peer.0)
        };
        covers(&self.exporters, flow.exporter) && either.into_iter().any(is_any)
    }

    fn takes_port(&self, protocol: u8, port: u16) -> bool {
        let has_ports = [6, 17, 33, 132].contains(&protocol);
        (self.protocols.is_empty() || self.protocols.contains(&protocol))
            && (self.ports.is_empty()
                || has_ports && self.ports.iter().any(|ports| ports.contains(&port)))
    }

    fn write(&self, name: usize, text: &mut String) {
        fn joined<T: ToString>(items: &[T]) -> String {
            items.iter().map(T::to_string).collect::<Vec<_>>().join("|")
        }
        let ports: Vec<_> =
            self.ports.iter().map(|it| format!("{}-{}", it.start(), it.end())).collect();
        let (protocols, ports) = (joined(&self.protocols), joined(&ports));
        let (prefixes, peers, exporters) =
            (joined(&self.prefixes), joined(&self.peers), joined(&self.exporters));
        writeln!(text, "{peers},{ports},app-{name},{exporters},{protocols},{prefixes}").unwrap();
    }
}

/// No prefix is any; IPv4 and IPv6 are two things.
fn covers(prefixes: &[IpNet], address: IpAddr) -> bool {
    prefixes.is_empty() || prefixes.iter().any(|prefix| prefix.contains(&address))
}

/// Few ports and addresses, so that rules overlap and flows meet them.
fn port(rng: &mut Rng) -> u16 {
    if rng.u8(0..10) == 0 { *rng.choice(&[0, u16::MAX]).unwrap() } else { rng.u16(1..40) }
}

fn ports_of(rng: &mut Rng) -> RangeInclusive<u16> {
    let (a, b) = (port(rng), port(rng));
    if rng.bool() { a..=a } else { a.min(b)..=a.max(b) }
}

fn address(rng: &mut Rng) -> IpAddr {
    let low = rng.u8(0..4);
    if rng.bool() {
        Ipv4Addr::new(10, rng.u8(0..3), rng.u8(0..2), low).into()
    } else {
        Ipv6Addr::new(0x2001, 0xdb8, rng.u16(0..3), 0, 0, 0, 0, u16::from(low)).into()
    }
}

fn prefix(rng: &mut Rng) -> IpNet {
    let address = address(rng);
    let length = match address {
        IpAddr::V4(_) => *rng.choice(&[0, 8, 16, 24, 30, 32]).unwrap(),
        IpAddr::V6(_) => *rng.choice(&[0, 32, 48, 64, 127, 128]).unwrap(),
    };
    IpNet::new(address, length).unwrap().trunc()
}

fn flow(rng: &mut Rng) -> Flow {
    Flow {
        exporter: address(rng),
        protocol: *rng.choice(&[6, 6, 6, 17, 17, 132, 33, 1, 47, 50]).unwrap(),
        src: (address(rng), port(rng)),
        dst: (address(rng), port(rng)),
    }
}

fn mapped(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    }
}

fn find(rules: &Rules, flow: &Flow) -> Option<u16> {
    let side = |(address, port)| Side { class: rules.address_class(mapped(address)), port };
    let exporter = rules.exporter_class(flow.exporter);
    rules.find(exporter, flow.protocol, side(flow.src), side(flow.dst))
}

const HEAD: &str = "peer-prefixes,ports,application,exporter,protocol,prefixes\n";

#[test]
fn the_first_rule_applies_that_a_scan_from_the_top_finds() {
    let mut found = 0;
    for seed in 0..RULE_SETS {
        let mut rng = Rng::with_seed(seed);
        // Now and then more than a word, and more than a group.
        let count = match seed {
            0 => 9_000,
            _ if seed % 10 == 0 => 1_000,
            _ => rng.usize(0..130),
        };
        let plain: Vec<_> = (0..count).map(|_| PlainRule::random(&mut rng)).collect();
        let mut text = HEAD.to_owned();
        plain.iter().enumerate().for_each(|(index, rule)| rule.write(index, &mut text));
        let rules = Rules::parse(&text).unwrap();
        assert_eq!(rules.len(), count);
        for _ in 0..FLOWS {
            let flow = flow(&mut rng);
            let expected = plain.iter().position(|rule| rule.applies(&flow));
            let actual = find(&rules, &flow);
            assert_eq!(actual.map(usize::from), expected, "seed {seed}: {flow:?}");
            if let Some(index) = actual {
                assert_eq!(**rules.name(index), format!("app-{index}"));
                found += 1;
            }
        }
    }
    // Neither all nor none, or little was tried.
    assert!((10_000..90_000).contains(&found), "{found}");
}

#[test]
fn a_rule_that_many_rules_are_before_is_found_beyond_the_first_group() {
    let mut text = "application,ports,prefixes\n".to_owned();
    for index in 0..9_000 {
        writeln!(text, "app-{index},{},10.{}.{}.0/24", 1 + index % 7, index / 250, index % 250)
            .unwrap();
    }
    let rules = Rules::parse(&text).unwrap();
    for index in [0, 4_095, 4_096, 8_191, 8_192, 8_999_u16] {
        let [a, b] = [index / 250, index % 250].map(|part| u8::try_from(part).unwrap());
        let server = (Ipv4Addr::new(10, a, b, 9).into(), 1 + index % 7);
        let client = (Ipv4Addr::new(192, 0, 2, 1).into(), 50_000);
        let exporter = Ipv4Addr::LOCALHOST.into();
        assert_eq!(
            find(&rules, &Flow { exporter, protocol: 6, src: client, dst: server }),
            Some(index)
        );
        assert_eq!(
            find(&rules, &Flow { exporter, protocol: 17, src: server, dst: client }),
            Some(index)
        );
    }
}

#[test]
fn columns_are_in_any_order_and_the_rest_of_them_is_any() {
    let text =
        "# ours\nports,application\r\n 80 | 443 ,web\n\n# theirs\n\"8000-8099\",\"a, b\"\n,rest\n";
    let rules = Rules::parse(text).unwrap();
    let name = |protocol, port| {
        let side = |port| Side { port, ..Side::default() };
        let index = rules.find(
            rules.exporter_class(Ipv4Addr::LOCALHOST.into()),
            protocol,
            side(50_000),
            side(port),
        );
        index.map(|index| rules.name(index).to_string())
    };
    assert_eq!(name(6, 443).as_deref(), Some("web"));
    assert_eq!(name(17, 8_050).as_deref(), Some("a, b"));
    assert_eq!(name(6, 8_100).as_deref(), Some("rest"));
    assert_eq!(name(1, 443).as_deref(), Some("rest"), "ICMP has no ports");
}

#[test]
fn a_mapped_prefix_is_one_of_ipv4_and_a_prefix_of_ipv6_is_not() {
    let rules = Rules::parse("application,prefixes\na,::ffff:10.0.0.0/104\nb,::/0\n").unwrap();
    let index = |address: &str| {
        let side = Side { class: rules.address_class(mapped(address.parse().unwrap())), port: 0 };
        rules.find(rules.exporter_class(Ipv4Addr::LOCALHOST.into()), 47, side, side)
    };
    assert_eq!(
        [index("10.1.2.3"), index("11.1.2.3"), index("2001:db8::1")],
        [Some(0), None, Some(1)]
    );
}

fn mistakes(text: &str) -> String {
    Rules::parse(text).unwrap_err().to_string().replace("; ", "\n")
}

#[test]
fn every_mistake_is_told_with_its_line() {
    let rules = "# rules\napplication,protocol,ports,prefixes,peer-prefixes,exporter\n\n# comment\n\
                 ,tcp,80,,,\nweb,tpc,80,,,\nweb,tcp,80-70|x||70000,,,\n\"two\nlines\",tcp,80,,,\n\
                 ping,icmp,8,,,\nnet,,,10.0.0.1/8|2001:db8::/129,1.2.3,here\r\nshort,tcp\nlong,,,,,,\n";
    let heads = ["", "\n# nothing\n", "ports\n80\n", "application,Ports,ports,ports\n"];
    let all: Vec<_> = heads.into_iter().chain([rules]).map(mistakes).collect();
    insta::assert_snapshot!(all.join("\n---\n"));
}

#[test]
fn mistakes_and_rules_are_bounded() {
    let wrong = "web,x\n".repeat(1_000);
    let said = mistakes(&format!("application,ports\n{wrong}"));
    assert_eq!(said.lines().count(), 51);
    assert!(said.ends_with("\nand 950 more"), "{said}");
    let rules = |count| Rules::parse(&format!("application,ports\n{}", "web,80\n".repeat(count)));
    assert_eq!(rules(RULES_MAX).unwrap().len(), RULES_MAX);
    let said = rules(RULES_MAX + 1).unwrap_err().to_string();
    assert_eq!(said, format!("line {}: there are more than 65535 rules", RULES_MAX + 2));
    // Five thousand small prefixes lie in a large one of as many rules, so each has a set of its own.
    let mut text = "application,prefixes\n".to_owned();
    text.push_str(&"all,10.0.0.0/8\n".repeat(5_000));
    for index in 0..5_000 {
        writeln!(text, "own,10.{}.{}.0/24", index / 250, index % 250).unwrap();
    }
    let said = mistakes(&text);
    assert!(said.contains("lie within each other"), "{said}");
}
