//! What each path answers.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use arc_swap::ArcSwap;
use hyper::{Method, StatusCode};

use crate::clickhouse::EndpointInUse;
use crate::decode::Exporters;
use crate::sink::{Alarms, Ledger};
use crate::snmp::Watched;
use crate::telemetry::{Metrics, unix_ms};

use super::api;
use super::reloads::Reloads;

/// Where the collector is in its life.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub enum Phase {
    /// Receivers are not all bound yet.
    Starting,
    /// Every receiver is bound.
    Ready,
    /// No more datagrams are taken.
    Stopping,
}

/// What the management server shows.
#[derive(Debug)]
pub struct View {
    /// The metrics.
    pub metrics: Arc<Metrics>,
    /// The exporters that were heard.
    pub exporters: Arc<Exporters>,
    /// The books.
    pub ledger: Arc<Ledger>,
    /// The ClickHouse that batches go to.
    pub endpoint: Arc<EndpointInUse>,
    /// What is wrong with it.
    pub alarms: Arc<Alarms>,
    /// Exporters that are asked for their interfaces.
    pub snmp: Watched,
    /// What became of the configuration.
    pub reloads: Reloads,
    /// Name and address of each receiver.
    pub(super) receivers: ArcSwap<Vec<(String, SocketAddr)>>,
    phase: AtomicU8,
}

/// A response: status, content type, body.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) content_type: &'static str,
    pub(super) body: String,
}

impl View {
    /// A view of a collector that is starting.
    #[must_use]
    pub fn new(
        metrics: Arc<Metrics>,
        exporters: Arc<Exporters>,
        ledger: Arc<Ledger>,
        endpoint: Arc<EndpointInUse>,
        alarms: Arc<Alarms>,
        snmp: Watched,
    ) -> Self {
        let phase = AtomicU8::new(Phase::Starting as u8);
        let (reloads, receivers) = (Reloads::new(&metrics), ArcSwap::default());
        Self { snmp, reloads, metrics, exporters, ledger, endpoint, alarms, receivers, phase }
    }

    /// The receivers are these now.
    pub fn show_receivers(&self, receivers: &[(String, SocketAddr)]) {
        self.receivers.store(Arc::new(receivers.to_vec()));
    }

    /// Enters a phase.
    pub fn enter(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::Relaxed);
    }

    pub(super) fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Relaxed) {
            0 => Phase::Starting,
            1 => Phase::Ready,
            _ => Phase::Stopping,
        }
    }

    pub(super) fn answer(&self, method: &Method, path: &str, query: Option<&str>) -> Answer {
        if !matches!(*method, Method::GET | Method::HEAD) {
            return Answer::text(StatusCode::METHOD_NOT_ALLOWED, "only GET");
        }
        match path {
            "/livez" => Answer::text(StatusCode::OK, "ok"),
            "/readyz" => self.readiness(),
            "/metrics" => Answer {
                status: StatusCode::OK,
                content_type: "text/plain; version=0.0.4; charset=utf-8",
                body: self.metrics.render(),
            },
            "/api/v1/status" => Answer::json(&api::status(self)),
            "/api/v1/exporters" => Answer::json(&api::exporters(&self.exporters, unix_ms())),
            "/api/v1/templates" => self.templates(query),
            "/api/v1/snmp" => Answer::json(&api::snmp(&self.snmp)),
            "/api/v1/interfaces" => Answer::json(&api::interfaces(&self.exporters)),
            _ => Answer::text(
                StatusCode::NOT_FOUND,
                "here are /livez /readyz /metrics /api/v1/status /api/v1/exporters \
                 /api/v1/templates?exporter=ADDRESS /api/v1/interfaces /api/v1/snmp",
            ),
        }
    }

    /// Of one exporter: those of all could be millions.
    fn templates(&self, query: Option<&str>) -> Answer {
        let address = query.and_then(|query| query.strip_prefix("exporter="));
        let Some(Ok(address)) = address.map(str::parse::<IpAddr>) else {
            return Answer::text(StatusCode::BAD_REQUEST, "say of which: ?exporter=ADDRESS");
        };
        let known = self.exporters.list();
        match known.iter().find(|exporter| exporter.address() == address) {
            Some(exporter) => Answer::json(&api::templates(exporter)),
            None => Answer::text(StatusCode::NOT_FOUND, "this exporter was not heard"),
        }
    }

    fn readiness(&self) -> Answer {
        match self.phase() {
            Phase::Ready => Answer::text(StatusCode::OK, "ok: receivers listening"),
            Phase::Starting => {
                Answer::text(StatusCode::SERVICE_UNAVAILABLE, "unavailable: starting")
            }
            Phase::Stopping => {
                Answer::text(StatusCode::SERVICE_UNAVAILABLE, "unavailable: stopping")
            }
        }
    }
}

impl Answer {
    pub(super) fn text(status: StatusCode, text: &str) -> Self {
        Self { status, content_type: "text/plain; charset=utf-8", body: format!("{text}\n") }
    }

    fn json(value: &serde_json::Value) -> Self {
        Self {
            status: StatusCode::OK,
            content_type: "application/json",
            body: format!("{value}\n"),
        }
    }
}
