//! Sends traces of writes to a collector with OTLP (`zoarium.traces.*`).
//!
//! Each member sends its own part of the trace of a write. The ids are derived from the
//! transaction, which is equal on all members, so a collector finds one trace:
//!
//! ```text
//! setData            the request, sent by the member that serves the client
//! |- order           until this member has the transaction: preparation, and on a follower the
//! |                  way to the leader and back
//! |- log             until the transaction is on the disk of this member
//! |- commit          until the transaction is known to be on the disks of a quorum
//! |- apply           until the transaction is in the tree and the reply is ready
//! |- member          the write on each other member, with log, commit and apply below it
//! ```

mod post;
mod spans;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use config::{Config, TraceExport};
use metrics::role::RoleCell;
use metrics::traces::{Traces, WriteTrace};
use opentelemetry::KeyValue;
use opentelemetry_otlp::{
    ExporterBuildError, Protocol, SpanExporter, WithExportConfig, WithHttpConfig,
};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SpanExporter as _;
use tokio::time::{MissedTickBehavior, interval};

use self::post::Post;
use self::spans::Member;

/// Interval between requests to the collector.
const EVERY: Duration = Duration::from_secs(1);

/// Maximum number of traces in one request. Each trace contains up to five spans of some hundred
/// bytes.
const BATCH: usize = 512;

/// Default name of this service, which `OTEL_SERVICE_NAME` or `OTEL_RESOURCE_ATTRIBUTES` can
/// replace.
const SERVICE_NAME: &str = "zoarium";

/// Returns a future that sends traces until its task is aborted, or `None` if traces are not
/// configured.
pub fn send(
    config: &Config,
    traces: Option<Arc<Traces>>,
    role: Arc<RoleCell>,
) -> Option<impl Future<Output = ()> + use<>> {
    let traces = traces?;
    let to = config.traces.clone()?;
    let sid = config.ensemble.as_ref().map(|own| own.my_id.0);
    Some(async move {
        match exporter(&to, sid) {
            Ok(exporter) => run(&traces, &role, sid, &to, &exporter).await,
            Err(error) => {
                tracing::error!(url = %to.url, err = %error, "cannot create the exporter of traces, continuing without traces");
            }
        }
    })
}

fn exporter(to: &TraceExport, sid: Option<i64>) -> Result<SpanExporter, ExporterBuildError> {
    let exporter = SpanExporter::builder()
        .with_http()
        .with_http_client(Post::new(&to.url))
        .with_endpoint(to.url.to_string())
        .with_protocol(Protocol::HttpBinary)
        .build();
    let mut exporter = exporter?;
    exporter.set_resource(&resource(sid));
    Ok(exporter)
}

fn resource(sid: Option<i64>) -> Resource {
    let instance: Cow<'static, str> = match sid {
        Some(sid) => sid.to_string().into(),
        None => "standalone".into(),
    };
    let with_environment = Resource::builder().build();
    let is_named = with_environment.iter().any(|(key, value)| {
        key.as_str() == "service.name" && !value.as_str().starts_with("unknown_service")
    });
    let resource = Resource::builder().with_attributes([
        KeyValue::new("service.instance.id", instance),
        KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
    ]);
    if is_named {
        resource.build()
    } else {
        resource.with_service_name(SERVICE_NAME).build()
    }
}

async fn run(
    traces: &Traces,
    role: &RoleCell,
    sid: Option<i64>,
    to: &TraceExport,
    exporter: &SpanExporter,
) {
    tracing::info!(url = %to.url, every = to.every, "sending traces of writes");
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut is_failing = false;
    loop {
        ticks.tick().await;
        let (finished, left_out) = traces.take_finished();
        if left_out > 0 {
            tracing::warn!(
                left_out,
                "dropping traces because more writes are traced than can be sent; raise zoarium.traces.every"
            );
        }
        let member = Member {
            sid,
            role: role.get().mode.name(),
        };
        for batch in finished.chunks(BATCH) {
            let sent = send_batch(exporter, &member, batch).await;
            // Logged once per outage of the collector, not once per second.
            match (&sent, is_failing) {
                (Err(error), false) => {
                    tracing::warn!(url = %to.url, err = %error, "cannot send traces, dropping them until the collector accepts them again");
                }
                (Ok(()), true) => tracing::info!(url = %to.url, "sending traces again"),
                _ => {}
            }
            is_failing = sent.is_err();
        }
    }
}

async fn send_batch(
    exporter: &SpanExporter,
    member: &Member,
    batch: &[WriteTrace],
) -> opentelemetry_sdk::error::OTelSdkResult {
    let spans = batch.iter().flat_map(|trace| spans::of(trace, member));
    exporter.export(spans.collect()).await
}
