//! Applications.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use super::mistakes::Mistakes;

/// Class.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct AddressClass;
/// Class.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct ExporterClass;
/// Side.
#[derive(Clone, Copy, Debug)]
pub struct Side {
    /// class
    pub class: AddressClass,
    /// port
    pub port: u16,
}
/// Rules.
#[derive(Debug, Default)]
pub struct Rules(Vec<Arc<str>>);
impl Rules {
    /// parse
    pub fn parse(_: &str) -> Result<Self, Mistakes> {
        Ok(Self::default())
    }
    /// len
    pub fn len(&self) -> usize {
        self.0.len()
    }
    /// empty
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    /// class
    pub fn address_class(&self, _: Ipv6Addr) -> AddressClass {
        AddressClass
    }
    /// class
    pub fn exporter_class(&self, _: IpAddr) -> ExporterClass {
        ExporterClass
    }
    /// find
    pub fn find(&self, _: ExporterClass, _: u8, _: Side, _: Side) -> Option<u16> {
        None
    }
    /// name
    pub fn name(&self, rule: u16) -> &Arc<str> {
        &self.0[usize::from(rule)]
    }
}
/// Services.
#[derive(Debug)]
pub struct Services;
impl Services {
    /// iana
    pub fn iana() -> Self {
        Self
    }
    /// of flow
    pub fn of_flow(&self, protocol: u8, src: u16, dst: u16) -> Option<&'static str> {
        match (protocol, src.min(dst)) {
            (6, 443) => Some("https"),
            (6 | 17, 53) => Some("domain"),
            _ => None,
        }
    }
}
