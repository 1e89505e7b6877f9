//! `[snmp]`: which exporters are asked for the names of their interfaces, and how.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use ipnet::IpNet;

use super::secret::Secret;
use super::section::Section;
use super::values::parse_prefix;

/// `[snmp]`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SnmpConfig {
    /// How often an exporter is asked again.
    pub interval: Duration,
    /// How long to wait for the answer to one request.
    pub timeout: Duration,
    /// How often a request without an answer is sent again.
    pub retries: u32,
    /// Exporters that are asked at a time.
    pub concurrency: usize,
    /// `[[snmp.agents]]`, in the order of the file. Without any, nobody is asked.
    pub agents: Vec<SnmpAgentConfig>,
}

/// `[[snmp.agents]]`: how exporters in a range are asked.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SnmpAgentConfig {
    /// Addresses of exporters.
    pub range: IpNet,
    /// UDP port that they answer at.
    pub port: u16,
    /// Version and credentials.
    pub access: SnmpAccess,
}

/// `version`, and the credentials that go with it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum SnmpAccess {
    /// Communities, RFC 1901.
    V2c {
        /// Travels as it is.
        community: Secret,
    },
    /// Users, RFC 3414.
    V3(SnmpUser),
}

/// A user of SNMPv3.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SnmpUser {
    /// Its name.
    pub name: String,
    /// The context that is asked for, mostly empty.
    pub context: String,
    /// How its messages are signed; without it they are neither signed nor encrypted.
    pub authentication: Option<SnmpAuthentication>,
}

/// How messages are signed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SnmpAuthentication {
    /// The hash.
    pub protocol: SnmpHash,
    /// Password of the key.
    pub password: Secret,
    /// How they are encrypted, if they are.
    pub privacy: Option<SnmpPrivacy>,
}

/// How messages are encrypted.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SnmpPrivacy {
    /// The cipher.
    pub protocol: SnmpCipher,
    /// Password of the key.
    pub password: Secret,
}

/// `auth-protocol`: RFC 3414 and RFC 7860.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum SnmpHash {
    Md5,
    Sha1,
    Sha224,
    Sha256,
    Sha384,
    Sha512,
}

/// `privacy-protocol`: RFC 3414, RFC 3826, and longer keys of AES, for which there are drafts only.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum SnmpCipher {
    Des,
    Aes128,
    /// Keys are made longer as draft-blumenthal-aes-usm has it, and net-snmp.
    Aes192,
    Aes256,
    /// Keys are made longer as draft-reeder-snmpv3-usm-3desede has it, and Cisco. With a hash that is as long
    /// as the key there is no difference.
    Aes192Cisco,
    Aes256Cisco,
}

impl SnmpConfig {
    /// How the exporter at `address` is asked: the longest range that has it decides.
    #[must_use]
    pub fn agent_of(&self, address: IpAddr) -> Option<&SnmpAgentConfig> {
        let matching = self.agents.iter().filter(|agent| agent.range.contains(&address));
        matching.max_by_key(|agent| agent.range.prefix_len())
    }
}

impl SnmpHash {
    const ALL: [Self; 6] =
        [Self::Sha1, Self::Sha224, Self::Sha256, Self::Sha384, Self::Sha512, Self::Md5];

    /// The name in the configuration.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Md5 => "md5",
            Self::Sha1 => "sha",
            Self::Sha224 => "sha-224",
            Self::Sha256 => "sha-256",
            Self::Sha384 => "sha-384",
            Self::Sha512 => "sha-512",
        }
    }
}

impl SnmpCipher {
    const ALL: [Self; 6] =
        [Self::Aes128, Self::Aes192, Self::Aes256, Self::Aes192Cisco, Self::Aes256Cisco, Self::Des];

    /// The name in the configuration.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Des => "des",
            Self::Aes128 => "aes-128",
            Self::Aes192 => "aes-192",
            Self::Aes256 => "aes-256",
            Self::Aes192Cisco => "aes-192-cisco",
            Self::Aes256Cisco => "aes-256-cisco",
        }
    }
}

/// What may be shown of it: `192.0.2.0/24 v3 as monitor (sha-256, aes-128)`.
impl fmt::Display for SnmpAgentConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.range)?;
        if self.port != DEFAULT_PORT {
            write!(f, " port {}", self.port)?;
        }
        match &self.access {
            SnmpAccess::V2c { .. } => f.write_str(" v2c"),
            SnmpAccess::V3(user) => {
                write!(f, " v3 as {}", user.name)?;
                let Some(authentication) = &user.authentication else {
                    return f.write_str(" (not signed)");
                };
                let privacy = authentication.privacy.as_ref();
                let cipher = privacy.map_or("not encrypted", |privacy| privacy.protocol.label());
                write!(f, " ({}, {cipher})", authentication.protocol.label())
            }
        }
    }
}

/// Of SNMP, RFC 3417 section 3.2.
const DEFAULT_PORT: u16 = 161;

/// Names change by hand, once in a while.
const INTERVAL_DEFAULT: Duration = Duration::from_secs(3_600);
const INTERVAL_MIN: Duration = Duration::from_secs(60);
const INTERVAL_MAX: Duration = Duration::from_secs(7 * 86_400);

/// Routers answer SNMP when they have nothing else to do.
const TIMEOUT_DEFAULT: Duration = Duration::from_secs(2);
const TIMEOUT_MIN: Duration = Duration::from_millis(100);
const TIMEOUT_MAX: Duration = Duration::from_secs(30);

/// A host that is silent holds its place for three timeouts.
const RETRIES_DEFAULT: usize = 2;
const RETRIES_MAX: usize = 10;

/// A thousand exporters that answer are walked within a minute, a thousand that are silent within the longest
/// pause before they are asked again. Each walk has a socket and one request under way.
const CONCURRENCY_DEFAULT: usize = 16;
const CONCURRENCY_MAX: usize = 256;

/// Of a user's name, RFC 3414 section 5, `usmUserName`.
const NAME_BYTES_MAX: usize = 32;

/// Of a context's name, RFC 3415 section 4, `vacmContextName`.
const CONTEXT_BYTES_MAX: usize = 32;

/// Of a password, RFC 3414 section 11.2.
const PASSWORD_BYTES_MIN: usize = 8;

/// Reads `[snmp]`.
pub(super) fn read(section: Section<'_>) -> SnmpConfig {
    let retries = section.count("retries", RETRIES_DEFAULT, 0..=RETRIES_MAX);
    let config = SnmpConfig {
        interval: section.duration("interval", INTERVAL_DEFAULT, INTERVAL_MIN..=INTERVAL_MAX),
        timeout: section.duration("timeout", TIMEOUT_DEFAULT, TIMEOUT_MIN..=TIMEOUT_MAX),
        retries: u32::try_from(retries).unwrap_or(u32::MAX),
        concurrency: section.count("concurrency", CONCURRENCY_DEFAULT, 1..=CONCURRENCY_MAX),
        agents: agents(section.tables("agents")),
    };
    section.finish();
    config
}

fn agents(sections: Vec<Section<'_>>) -> Vec<SnmpAgentConfig> {
    let mut agents: Vec<SnmpAgentConfig> = Vec::new();
    for section in sections {
        let agent = agent(&section);
        if agents.iter().any(|other| other.range == agent.range) && section.has("range") {
            section.mistake("range", format!("{} is there twice", agent.range));
        }
        agents.push(agent);
        section.finish();
    }
    agents
}

fn agent(section: &Section<'_>) -> SnmpAgentConfig {
    let range_rule = "an address or a prefix, \"192.0.2.0/24\"";
    let range = section.parsed("range", None, range_rule, |text| parse_prefix(text).map(Some));
    if !section.has("range") {
        section.mistake("range", format!("is missing; {range_rule}"));
    }
    let port = section.count("port", DEFAULT_PORT.into(), 1..=u16::MAX.into());
    let is_v3 = section.parsed("version", false, "\"v2c\" or \"v3\"", |text| match text {
        "v2c" => Some(false),
        "v3" => Some(true),
        _ => None,
    });
    SnmpAgentConfig {
        range: range.unwrap_or_default(),
        port: u16::try_from(port).unwrap_or(DEFAULT_PORT),
        access: if is_v3 { v3(section) } else { v2c(section) },
    }
}

fn v2c(section: &Section<'_>) -> SnmpAccess {
    for key in V3_KEYS {
        section.refuse(key, "goes with version = \"v3\" only");
    }
    SnmpAccess::V2c { community: needed_secret(section, "community") }
}

const V3_KEYS: [&str; 6] = [
    "username",
    "auth-protocol",
    "auth-password",
    "privacy-protocol",
    "privacy-password",
    "context",
];

fn v3(section: &Section<'_>) -> SnmpAccess {
    section.refuse("community", "goes with version = \"v2c\" only");
    let name = short_text(section, "username", NAME_BYTES_MAX);
    if name.is_empty() {
        section.mistake("username", "is missing");
    }
    let context = short_text(section, "context", CONTEXT_BYTES_MAX);
    let hashes = SnmpHash::ALL.map(|hash| (hash.label(), hash));
    let ciphers = SnmpCipher::ALL.map(|cipher| (cipher.label(), cipher));
    let signed = protection(section, ["auth-protocol", "auth-password"], &hashes);
    let encrypted = protection(section, ["privacy-protocol", "privacy-password"], &ciphers);
    if signed.is_none() && encrypted.is_some() {
        section.mistake("privacy-protocol", "needs auth-protocol and auth-password too");
    }
    let privacy = encrypted.map(|(protocol, password)| SnmpPrivacy { protocol, password });
    let authentication =
        signed.map(|(protocol, password)| SnmpAuthentication { protocol, password, privacy });
    SnmpAccess::V3(SnmpUser { name, context, authentication })
}

/// A protocol and its password, or neither.
fn protection<T: Copy>(
    section: &Section<'_>,
    [protocol_key, password_key]: [&str; 2],
    known: &[(&str, T)],
) -> Option<(T, Secret)> {
    let names: Vec<_> = known.iter().map(|(name, _)| format!("\"{name}\"")).collect();
    let protocol =
        section.parsed(protocol_key, None, &format!("one of {}", names.join(", ")), |text| {
            known.iter().find(|(name, _)| *name == text).map(|(_, it)| Some(*it))
        });
    if !section.has(protocol_key) {
        section.refuse(password_key, &format!("goes with {protocol_key} only"));
        return None;
    }
    let password = needed_secret(section, password_key);
    if (1..PASSWORD_BYTES_MIN).contains(&password.expose().len()) {
        section
            .mistake(password_key, format!("must have {PASSWORD_BYTES_MIN} characters at least"));
    }
    protocol.map(|protocol| (protocol, password))
}

fn needed_secret(section: &Section<'_>, key: &str) -> Secret {
    if !section.has(key) {
        section.mistake(key, "is missing");
    } else if section.text(key, "").is_empty() {
        section.mistake(key, "is empty");
    }
    section.secret(key)
}

fn short_text(section: &Section<'_>, key: &str, bytes_max: usize) -> String {
    let expected = format!("text of {bytes_max} bytes at most");
    section.parsed(key, String::new(), &expected, |text| {
        (text.len() <= bytes_max).then(|| text.to_owned())
    })
}
