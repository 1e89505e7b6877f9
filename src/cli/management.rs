//! Asking the management server of a running collector, with its token and over TLS where it has them.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};

use crate::config::{Config, ManagementConfig, Secret};
use crate::tls::{self, ClientTls, Trust};

use super::ConfigFile;

/// The management server answers at once, or does not.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Where it listens by default.
const DEFAULT_ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8080);

/// Which management server, and how to ask it
#[derive(Debug, clap::Args)]
pub(super) struct ManagementArgs {
    /// The management server of the collector [default: that of --config, or 127.0.0.1:8080]
    #[arg(long, value_name = "ADDR", value_parser = server)]
    management: Option<Server>,
    /// The collector's configuration: has its address, its token, and the certificate to trust
    #[arg(short = 'c', long = "config", value_name = "FILE")]
    config: Option<PathBuf>,
    /// Use TLS, and trust the authorities in this file (PEM)
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
    /// The token is in this file
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

#[derive(Clone, Debug)]
struct Server {
    /// As it is in its certificate.
    host: String,
    address: SocketAddr,
}

/// Where to ask and what with.
#[derive(Debug)]
pub(super) struct Management {
    server: Server,
    token: Option<Secret>,
    tls: Option<ClientTls>,
}

impl ManagementArgs {
    /// What follows from the arguments; or every mistake of the configuration was said, and how to exit.
    pub(super) fn read(self) -> Result<Result<Management, ExitCode>> {
        let config = match self.config.map(|path| ConfigFile { path }.load()).transpose() {
            Ok(config) => config.map(|Config { management, .. }| management),
            Err(exit_code) => return Ok(Err(exit_code)),
        };
        let of_config = config.as_ref().map_or(DEFAULT_ADDRESS, |config| config.listen);
        let server = self.management.unwrap_or_else(|| Server::listening(of_config));
        let token = match self.token_file {
            Some(path) => Some(Secret::read(&path).map_err(anyhow::Error::msg)?),
            None => config.as_ref().and_then(|config| config.token.clone()),
        };
        let tls = match self.ca_file {
            Some(path) => {
                Some(ClientTls::new(Trust::Authorities(tls::certificates(&path)?), None, None)?)
            }
            None => config.as_ref().map_or(Ok(None), of_certificate)?,
        };
        Ok(Ok(Management { server, token, tls }))
    }
}

/// The server has the certificate of its file, or had it before that was renewed.
fn of_certificate(config: &ManagementConfig) -> Result<Option<ClientTls>, tls::SetupError> {
    let exactly = config.tls.as_ref().map(|tls| Trust::Exactly(tls.certificate()));
    exactly.map(|trust| ClientTls::new(trust, None, None)).transpose()
}

impl Server {
    /// Of this machine.
    fn listening(mut address: SocketAddr) -> Self {
        match address.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
            IpAddr::V6(ip) if ip.is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
            _ => {}
        }
        Self { host: address.ip().to_string(), address }
    }
}

fn server(text: &str) -> Result<Server, String> {
    let address = super::address(text)?;
    let host = text.rsplit_once(':').map_or(text, |(host, _)| host);
    Ok(Server { host: host.trim_matches(['[', ']']).to_owned(), address })
}

impl Management {
    /// The body of an answer.
    pub(super) fn get(&self, path: &str) -> Result<String> {
        self.try_get(path).with_context(|| {
            format!("no answer from the management server {}", self.server.address)
        })
    }

    fn try_get(&self, path: &str) -> Result<String> {
        let stream = TcpStream::connect_timeout(&self.server.address, TIMEOUT)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        let answer = match &self.tls {
            None => self.ask(stream, path)?,
            Some(tls) => {
                let name = ServerName::try_from(self.server.host.clone())?;
                let connection = ClientConnection::new(Arc::clone(tls.config()), name)?;
                self.ask(StreamOwned::new(connection, stream), path)?
            }
        };
        body(&answer)
    }

    /// The whole answer; the server closes the connection behind it.
    fn ask(&self, mut stream: impl Read + Write, path: &str) -> Result<Vec<u8>> {
        let authorization = self.token.as_ref().map_or_else(String::new, |token| {
            format!("Authorization: Bearer {}\r\n", token.expose())
        });
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: {}\r\n{authorization}Connection: close\r\n\r\n",
            self.server.address
        );
        let mut answer = Vec::new();
        let asked = stream
            .write_all(request.as_bytes())
            .and_then(|()| stream.flush())
            .and_then(|()| stream.read_to_end(&mut answer));
        match asked {
            Ok(_) => Ok(answer),
            Err(error) => match tls::of_io(&error) {
                Some(of_tls) => bail!(tls::explain(of_tls)),
                None => Err(error.into()),
            },
        }
    }
}

fn body(answer: &[u8]) -> Result<String> {
    let text = String::from_utf8_lossy(answer);
    let (head, body) = text
        .split_once("\r\n\r\n")
        .context("the answer is not HTTP; if it speaks TLS, --ca-file or --config is needed")?;
    let status = head.lines().next().unwrap_or_default();
    if status.starts_with("HTTP/1.1 401 ") {
        bail!("it wants a token, and the right one: --token-file or --config");
    }
    ensure!(status.starts_with("HTTP/1.1 200 "), "it is not a collector: {status}");
    Ok(body.to_owned())
}
