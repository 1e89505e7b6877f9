//! Which application a flow is of: the operator's own rules first ([`Rules`]), then the services of IANA
//! ([`Services`]).
//!
//! Nothing here waits or allocates for a flow; who calls keeps the class of an address, so that a prefix is looked
//! for once an address and not once a flow.

mod addresses;
mod groups;
mod parse;
mod rule;
mod rules;
mod services;
mod sets;
mod transports;

pub use rules::{AddressClass, ExporterClass, RULES_MAX, Rules, Side};
pub use services::{Service, Services, services};

/// A protocol number of IANA that has ports.
const TCP: u8 = 6;
const UDP: u8 = 17;
const DCCP: u8 = 33;
const SCTP: u8 = 132;

/// The protocols with ports, in the order of the tables by port. Of other protocols the columns of ports are empty
/// or hold something else, as the type of ICMP.
const WITH_PORTS: [u8; 4] = [TCP, UDP, SCTP, DCCP];

/// Number of the table by port of a protocol.
const fn table_of(protocol: u8) -> Option<usize> {
    match protocol {
        TCP => Some(0),
        UDP => Some(1),
        SCTP => Some(2),
        DCCP => Some(3),
        _ => None,
    }
}

/// Ports from 0 to 65,535.
const PORTS: usize = 1 << 16;
