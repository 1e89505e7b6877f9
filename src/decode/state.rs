//! What exporters announced, as bytes that outlive the process: templates, start times, sampling rates.
//!
//! After a restart flows go on at once, while templates come again after minutes, or not at all from
//! exporters that announce them once. Waiting sets are not kept. Restored templates count against the same
//! limits as announced ones, and are replaced like them.
//!
//! The bytes: [`MAGIC`], version, number of exporters, exporters, SHA-256 of all that. All numbers are
//! big-endian. A layout that differs gets another [`VERSION`].

use std::net::IpAddr;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::exporters::{Exporter, Exporters};
use super::options::Boot;
use super::rates::{Rate, RateKey};
use super::sampling::Algorithm;
use super::tally::Protocol;
use super::template::{Definition, Field, Learned, TEMPLATE_AGE_MAX_MS, Template, Templates};
use super::wire::Wire;

/// How the bytes begin, whatever the version.
const MAGIC: &[u8; 16] = b"tidegate state\r\n";

/// Of the layout.
const VERSION: u16 = 2;

/// Bytes of the SHA-256 at the end.
const CHECKSUM_BYTES: usize = 32;

/// Bytes of everything. The fields of all templates, by their limit, take 32 MiB; the rest is for their
/// headers, and for the rates of thousands of exporters.
pub const STATE_BYTES_MAX: usize = 256 << 20;

/// What is to be kept.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// For [`Exporters::restore`].
    pub bytes: Vec<u8>,
    /// Templates in it.
    pub templates: usize,
    /// Exporters for which there was no room.
    pub exporters_left_out: usize,
}

/// What was restored.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Restored {
    /// Exporters with something that is not too old.
    pub exporters: usize,
    /// Their templates.
    pub templates: usize,
    /// Templates that are too old.
    pub expired: usize,
    /// Templates beyond a limit.
    pub refused: usize,
}

/// Bytes that cannot be restored; nothing of them was.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum RestoreError {
    /// They are not what was written.
    #[error("the file is damaged")]
    Damaged,
    /// Another version of the program wrote them.
    #[error("the file has format {0}, this version of tidegate reads format {VERSION}")]
    OtherVersion(u16),
}

/// One exporter in the bytes.
#[derive(Debug)]
struct SavedExporter {
    address: IpAddr,
    last_seen_ms: i64,
    domains: Vec<SavedDomain>,
    boots: Vec<(u32, Boot)>,
    rates: Vec<(RateKey, Rate)>,
}

#[derive(Debug)]
struct SavedDomain {
    protocol: Protocol,
    domain_id: u32,
    templates: Vec<SavedTemplate>,
}

#[derive(Debug)]
struct SavedTemplate {
    seen_ms: i64,
    definition: Definition,
}

impl Exporters {
    /// Everything that exporters announced and that still counts.
    #[must_use]
    pub fn snapshot(&self, now_ms: i64) -> Snapshot {
        let mut body = Vec::new();
        let (mut exporters, mut templates, mut exporters_left_out) = (0, 0, 0);
        for exporter in self.known() {
            let saved = SavedExporter::of(&exporter, now_ms);
            if saved.is_empty() {
                continue;
            }
            let bytes = saved.encode();
            if body.len() + bytes.len() > STATE_BYTES_MAX - sealed(0, &[]).len() {
                exporters_left_out += 1;
                continue;
            }
            body.extend(bytes);
            exporters += 1;
            templates += saved.template_count();
        }
        Snapshot { bytes: sealed(exporters, &body), templates, exporters_left_out }
    }

    /// Learns what a snapshot has, as if it were announced now. Nothing of damaged bytes is used.
    ///
    /// # Errors
    ///
    /// They are damaged, or of another version.
    pub fn restore(&self, bytes: &[u8], now_ms: i64) -> Result<Restored, RestoreError> {
        let mut restored = Restored::default();
        for exporter in unseal(bytes)? {
            exporter.restore(self, now_ms, &mut restored);
        }
        Ok(restored)
    }
}

/// The whole from its exporters.
fn sealed(exporters: usize, body: &[u8]) -> Vec<u8> {
    let mut bytes = [&MAGIC[..], &VERSION.to_be_bytes(), &count(exporters), body].concat();
    let checksum = Sha256::digest(&bytes);
    bytes.extend_from_slice(&checksum);
    bytes
}

fn unseal(bytes: &[u8]) -> Result<Vec<SavedExporter>, RestoreError> {
    let mut wire = Wire(bytes);
    if wire.array() != Some(*MAGIC) {
        return Err(RestoreError::Damaged);
    }
    let version = wire.u16().ok_or(RestoreError::Damaged)?;
    if version != VERSION {
        return Err(RestoreError::OtherVersion(version));
    }
    let (content, checksum) =
        bytes.split_last_chunk::<CHECKSUM_BYTES>().ok_or(RestoreError::Damaged)?;
    if Sha256::digest(content).as_slice() != checksum {
        return Err(RestoreError::Damaged);
    }
    let body_bytes = wire.len().checked_sub(CHECKSUM_BYTES).ok_or(RestoreError::Damaged)?;
    let mut body = Wire(wire.take(body_bytes).ok_or(RestoreError::Damaged)?);
    let exporters = read_list(&mut body, SavedExporter::decode).ok_or(RestoreError::Damaged)?;
    if body.len() > 0 { Err(RestoreError::Damaged) } else { Ok(exporters) }
}

impl SavedExporter {
    fn of(exporter: &Exporter, now_ms: i64) -> Self {
        let domain = |((protocol, domain_id), templates): ((Protocol, u32), Arc<Templates>)| {
            let templates = SavedTemplate::all_of(&templates);
            (!templates.is_empty()).then_some(SavedDomain { protocol, domain_id, templates })
        };
        let mut boots = exporter.announced.boots.list();
        boots.retain_mut(|(_, boot)| is_current(&mut boot.seen_ms, now_ms));
        Self {
            address: exporter.address(),
            last_seen_ms: exporter.last_seen_ms(),
            domains: exporter.datagrams().domains().into_iter().filter_map(domain).collect(),
            boots,
            rates: exporter.announced.rates.list(now_ms),
        }
    }

    fn is_empty(&self) -> bool {
        self.domains.is_empty() && self.boots.is_empty() && self.rates.is_empty()
    }

    fn template_count(&self) -> usize {
        self.domains.iter().map(|domain| domain.templates.len()).sum()
    }

    fn restore(mut self, exporters: &Exporters, now_ms: i64, restored: &mut Restored) {
        let before = self.template_count();
        for domain in &mut self.domains {
            domain.templates.retain_mut(|template| is_current(&mut template.seen_ms, now_ms));
        }
        self.domains.retain(|domain| !domain.templates.is_empty());
        self.boots.retain_mut(|(_, boot)| is_current(&mut boot.seen_ms, now_ms));
        self.rates.retain_mut(|(_, rate)| is_current(&mut rate.seen_ms, now_ms));
        restored.expired += before - self.template_count();
        if self.is_empty() {
            return;
        }
        let last_seen_ms = now_ms.min(self.last_seen_ms);
        let Some(exporter) = exporters.get_if_room(self.address, last_seen_ms) else {
            restored.refused += self.template_count();
            return;
        };
        restored.exporters += 1;
        for (domain_id, Boot { boot_ms, seen_ms }) in self.boots {
            exporter.announced.boots.learn(domain_id, boot_ms.unsigned_abs(), seen_ms);
        }
        for (key, rate) in self.rates {
            exporter.announced.rates.learn(key, rate);
        }
        for domain in self.domains {
            domain.restore(&exporter, restored);
        }
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        match self.address {
            IpAddr::V4(address) => bytes.extend([&[4][..], &address.octets()].concat()),
            IpAddr::V6(address) => bytes.extend([&[6][..], &address.octets()].concat()),
        }
        bytes.extend(self.last_seen_ms.to_be_bytes());
        bytes.extend(count(self.domains.len()));
        self.domains.iter().for_each(|domain| domain.encode(&mut bytes));
        bytes.extend(count(self.boots.len()));
        for (domain_id, boot) in &self.boots {
            bytes.extend(domain_id.to_be_bytes());
            bytes.extend(boot.boot_ms.to_be_bytes());
            bytes.extend(boot.seen_ms.to_be_bytes());
        }
        bytes.extend(count(self.rates.len()));
        for (key, rate) in &self.rates {
            bytes.extend(key.domain_id.to_be_bytes());
            bytes.extend(key.sampler_id.to_be_bytes());
            bytes.extend(rate.interval.to_bits().to_be_bytes());
            bytes.push(rate.algorithm.0);
            bytes.extend(rate.seen_ms.to_be_bytes());
        }
        bytes
    }

    fn decode(wire: &mut Wire<'_>) -> Option<Self> {
        let address = match wire.u8()? {
            4 => IpAddr::from(wire.array::<4>()?),
            6 => IpAddr::from(wire.array::<16>()?),
            _ => return None,
        };
        Some(Self {
            address,
            last_seen_ms: time(wire)?,
            domains: read_list(wire, SavedDomain::decode)?,
            boots: read_list(wire, |wire| {
                let domain_id = wire.u32()?;
                Some((domain_id, Boot { boot_ms: time(wire)?, seen_ms: time(wire)? }))
            })?,
            rates: read_list(wire, |wire| {
                let key = RateKey { domain_id: wire.u32()?, sampler_id: wire.u64()? };
                let interval = f64::from_bits(wire.u64()?);
                let algorithm = Algorithm(wire.u8()?);
                let is_rate = interval.is_finite() && interval > 0.0;
                is_rate.then_some((key, Rate { interval, algorithm, seen_ms: time(wire)? }))
            })?,
        })
    }
}

impl SavedDomain {
    fn restore(self, exporter: &Exporter, restored: &mut Restored) {
        let Some(templates) = exporter.datagrams().new_templates(self.protocol, self.domain_id)
        else {
            restored.refused += self.templates.len();
            return;
        };
        for template in self.templates {
            match templates.learn(template.definition, template.seen_ms) {
                Learned::LimitReached => restored.refused += 1,
                Learned::Changed(_) | Learned::Known => restored.templates += 1,
            }
        }
    }

    fn encode(&self, bytes: &mut Vec<u8>) {
        // Its version word; no other protocol has templates.
        bytes.push(if self.protocol == Protocol::NetflowV9 { 9 } else { 10 });
        bytes.extend(self.domain_id.to_be_bytes());
        bytes.extend(count(self.templates.len()));
        self.templates.iter().for_each(|template| template.encode(bytes));
    }

    fn decode(wire: &mut Wire<'_>) -> Option<Self> {
        let protocol = match wire.u8()? {
            9 => Protocol::NetflowV9,
            10 => Protocol::Ipfix,
            _ => return None,
        };
        let domain_id = wire.u32()?;
        Some(Self { protocol, domain_id, templates: read_list(wire, SavedTemplate::decode)? })
    }
}

impl SavedTemplate {
    fn all_of(templates: &Templates) -> Vec<Self> {
        let saved = |template: &Arc<Template>| Self {
            seen_ms: template.seen_ms(),
            definition: template.definition.clone(),
        };
        templates.list().iter().map(saved).collect()
    }

    fn encode(&self, bytes: &mut Vec<u8>) {
        let Self { seen_ms, definition } = self;
        bytes.extend(seen_ms.to_be_bytes());
        bytes.extend(definition.id.to_be_bytes());
        bytes.push(definition.is_options.into());
        bytes.extend(count(definition.fields.len()));
        for field in &definition.fields {
            bytes.extend(field.enterprise.to_be_bytes());
            bytes.extend(field.id.to_be_bytes());
            bytes.extend(field.length.to_be_bytes());
        }
    }

    fn decode(wire: &mut Wire<'_>) -> Option<Self> {
        let (seen_ms, id) = (time(wire)?, wire.u16()?);
        let is_options = match wire.u8()? {
            0 => false,
            1 => true,
            _ => return None,
        };
        let fields = read_list(wire, |wire| {
            Some(Field { enterprise: wire.u32()?, id: wire.u16()?, length: wire.u16()? })
        })?;
        let definition = Definition { id, fields, is_options };
        definition.is_usable().then_some(Self { seen_ms, definition })
    }
}

/// Whether it was seen lately. A time to come, since the clock was set back, becomes now.
fn is_current(seen_ms: &mut i64, now_ms: i64) -> bool {
    *seen_ms = now_ms.min(*seen_ms);
    now_ms - *seen_ms < TEMPLATE_AGE_MAX_MS
}

fn count(items: usize) -> [u8; 4] {
    // The limits of decode keep it far below 2^32.
    u32::try_from(items).unwrap_or(u32::MAX).to_be_bytes()
}

/// A number of items and the items. Memory grows with the items read, not with the number said.
fn read_list<T>(wire: &mut Wire<'_>, read: impl Fn(&mut Wire<'_>) -> Option<T>) -> Option<Vec<T>> {
    let items = wire.u32()?;
    (0..items).map(|_| read(wire)).collect()
}

/// Milliseconds since 1970, not before.
fn time(wire: &mut Wire<'_>) -> Option<i64> {
    i64::try_from(wire.u64()?).ok()
}

#[cfg(test)]
mod tests;
