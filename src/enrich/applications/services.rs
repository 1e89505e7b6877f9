//! IANA's names of services, by protocol and port.

use std::fmt;
use std::sync::LazyLock;

use super::{PORTS, table_of};

/// Port, name, protocols.
const TEXT: &str = include_str!("services.csv");

/// The names of services.
pub struct Services {
    /// No name first, which is number 0.
    names: Vec<&'static str>,
    /// For each protocol with ports the number of the name of each port.
    tables: [Box<[u16]>; 4],
}

/// The service that a flow is of.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Service {
    /// Its name in the registry.
    pub name: &'static str,
    /// The number of the name, below [`Services::len`].
    pub number: u16,
    /// The port that says so.
    pub port: u16,
}

/// The names, read when they are first asked for.
#[must_use]
pub fn services() -> &'static Services {
    static SERVICES: LazyLock<Services> = LazyLock::new(Services::load);
    &SERVICES
}

impl Services {
    /// The name of a protocol's port.
    #[must_use]
    pub fn name(&self, protocol: u8, port: u16) -> Option<&'static str> {
        self.service(protocol, port).map(|service| service.name)
    }

    fn service(&self, protocol: u8, port: u16) -> Option<Service> {
        let number = self.tables[table_of(protocol)?][usize::from(port)];
        let name = self.names[usize::from(number)];
        (number != 0).then_some(Service { name, number, port })
    }

    /// Numbers of names, 0 of none included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether there is no name, which there is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// The service of a flow: of the ports with a name the lower one, since clients take high ports.
    #[must_use]
    pub fn find(&self, protocol: u8, src_port: u16, dst_port: u16) -> Option<Service> {
        let named = |port| self.service(protocol, port);
        let (low, high) = (src_port.min(dst_port), src_port.max(dst_port));
        named(low).or_else(|| named(high))
    }

    /// A line that cannot be read would be left out; a test sees to it that there is none.
    fn load() -> Self {
        let table = || vec![0; PORTS].into_boxed_slice();
        let mut services = Self { names: vec![""], tables: [table(), table(), table(), table()] };
        for (port, name, protocols) in lines().flatten() {
            let Ok(number) = u16::try_from(services.names.len()) else { break };
            services.names.push(name);
            for table in protocols.split(' ').filter_map(table_named) {
                services.tables[table][usize::from(port)] = number;
            }
        }
        services
    }
}

impl fmt::Debug for Services {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Services").field("names", &self.names.len()).finish_non_exhaustive()
    }
}

/// Port, name and protocols of each line; nothing for one that is none.
fn lines() -> impl Iterator<Item = Option<(u16, &'static str, &'static str)>> {
    TEXT.lines().filter(|line| !line.starts_with('#')).map(|line| {
        let (port, rest) = line.split_once(',')?;
        let (name, protocols) = rest.split_once(',')?;
        Some((port.parse().ok()?, name, protocols))
    })
}

fn table_named(protocol: &str) -> Option<usize> {
    ["tcp", "udp", "sctp", "dccp"].iter().position(|&name| name == protocol)
}

#[cfg(test)]
mod tests {
    use super::super::{DCCP, SCTP, TCP, UDP};
    use super::*;

    #[test]
    fn every_line_is_a_port_with_a_name_and_protocols() {
        let mut count = 0;
        for line in lines() {
            let (port, name, protocols) = line.expect("three fields");
            assert!(port > 0 && !name.is_empty() && !name.contains(' '), "{port} {name}");
            assert!(protocols.split(' ').all(|name| table_named(name).is_some()), "{protocols}");
            count += 1;
        }
        assert_eq!(count, services().names.len() - 1);
    }

    #[test]
    fn a_name_is_of_a_port_and_a_protocol() {
        let name = |protocol, port| services().name(protocol, port);
        assert_eq!(name(TCP, 443), Some("https"));
        assert_eq!(name(UDP, 53), Some("domain"));
        assert_eq!(name(TCP, 6_010), Some("x11"));
        assert_eq!(name(SCTP, 38_412), Some("ng-control"));
        assert_eq!((name(TCP, 38_412), name(DCCP, 443), name(TCP, 0)), (None, None, None));
        assert_eq!(name(1, 2_048), None, "ICMP has no ports");
    }

    #[test]
    fn the_lower_of_two_ports_with_names_is_the_service() {
        let find = |src, dst| services().find(TCP, src, dst).map(|service| service.port);
        assert_eq!(find(51_000, 443), Some(443));
        assert_eq!(find(443, 51_000), Some(443));
        assert_eq!(find(8_080, 80), Some(80));
        // 4 has no name, so the higher one says it.
        assert_eq!(find(4, 443), Some(443));
        assert_eq!((find(179, 179), find(4, 51_000)), (Some(179), None));
    }
}
