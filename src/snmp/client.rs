//! The library's client for an agent of the configuration.

use std::net::SocketAddr;
use std::time::Duration;

use async_snmp::{
    Auth, AuthProtocol, ClientBuilder, CryptoResult, DesSaltState, DesSaltStateError,
    PersistedDesSaltState, PrivProtocol, Retry, UdpClient, UsmConfig,
};

use crate::config::{SnmpAccess, SnmpAgentConfig, SnmpCipher, SnmpConfig, SnmpHash, SnmpUser};
use crate::telemetry::unix_ms;

use super::failure::Failure;

/// What all walks have in common.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    timeout: Duration,
    retries: u32,
}

impl Patience {
    pub(super) const fn of(config: &SnmpConfig) -> Self {
        Self { timeout: config.timeout, retries: config.retries }
    }
}

/// A client with a socket of its own. An answer from another address than the agent's is none: who sees no
/// request cannot answer it in its place.
pub(super) async fn connect(
    target: SocketAddr,
    agent: &SnmpAgentConfig,
    patience: Patience,
) -> Result<UdpClient, Failure> {
    let wrong = |error: &dyn std::fmt::Display| Failure::Refused(error.to_string());
    let (auth, needs_salt) = match &agent.access {
        SnmpAccess::V2c { community } => (Auth::v2c(community.expose().as_bytes().to_vec()), false),
        SnmpAccess::V3(user) => {
            let usm = usm(user).map_err(|error| wrong(&error))?;
            let needs_salt = usm.priv_protocol() == Some(PrivProtocol::Des);
            (usm.into(), needs_salt)
        }
    };
    let retry = Retry::fixed(patience.retries, Duration::ZERO).map_err(|error| wrong(&error))?;
    let mut builder = ClientBuilder::new(auth).request_timeout(patience.timeout).retry(retry);
    if needs_salt {
        builder = builder.des_salt_state(des_salt(unix_ms()).map_err(|error| wrong(&error))?);
    }
    // What is wrong with a user or a password an agent can only say unsigned, RFC 3414 section 3.2. Who forges
    // that ends a walk, or has one request signed with a wrong time.
    builder = builder.allow_unauthenticated_v3_time_correction(true);
    let connected = builder.target(target).strict_source(true).connect().await;
    connected.map_err(|error| Failure::of(&error))
}

fn usm(user: &SnmpUser) -> CryptoResult<UsmConfig> {
    let usm = UsmConfig::new(user.name.clone()).context_name(user.context.clone());
    let Some(signed) = &user.authentication else { return Ok(usm) };
    let (hash, password) = (hash(signed.protocol), signed.password.expose());
    match &signed.privacy {
        None => usm.auth(hash, password),
        Some(encrypted) => {
            let cipher = cipher(encrypted.protocol);
            usm.auth_priv(hash, password, cipher, encrypted.password.expose())
        }
    }
}

const fn hash(protocol: SnmpHash) -> AuthProtocol {
    match protocol {
        SnmpHash::Md5 => AuthProtocol::Md5,
        SnmpHash::Sha1 => AuthProtocol::Sha1,
        SnmpHash::Sha224 => AuthProtocol::Sha224,
        SnmpHash::Sha256 => AuthProtocol::Sha256,
        SnmpHash::Sha384 => AuthProtocol::Sha384,
        SnmpHash::Sha512 => AuthProtocol::Sha512,
    }
}

const fn cipher(protocol: SnmpCipher) -> PrivProtocol {
    match protocol {
        SnmpCipher::Des => PrivProtocol::Des,
        SnmpCipher::Aes128 => PrivProtocol::Aes128,
        SnmpCipher::Aes192 => PrivProtocol::Aes192Blumenthal,
        SnmpCipher::Aes256 => PrivProtocol::Aes256Blumenthal,
        SnmpCipher::Aes192Cisco => PrivProtocol::Aes192Reeder,
        SnmpCipher::Aes256Cisco => PrivProtocol::Aes256Reeder,
    }
}

/// The salts of DES must not come again with the same key, so they begin with a number that grows with every
/// start, RFC 3414 section 8.1.1.1. It need not be kept on disk: here it is the time in seconds.
fn des_salt(now_ms: i64) -> Result<DesSaltState, DesSaltStateError> {
    let seconds = u32::try_from(now_ms / 1_000 - SALT_EPOCH_S).unwrap_or_default();
    let before = PersistedDesSaltState::new(seconds.max(1))?;
    DesSaltState::restart(before, |_| Ok::<(), std::convert::Infallible>(()))
}

/// 2026-01-01: the number has 31 bits, which last until 2094.
const SALT_EPOCH_S: i64 = 1_767_225_600;
