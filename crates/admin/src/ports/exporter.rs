//! Exporter of metrics for Prometheus. Source: PrometheusMetricsProvider.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use config::{Config, MetricsExporter};
use hyper::body::Incoming;
use hyper::{Method, Request, Response, StatusCode};
use metrics::prometheus::{CONTENT_TYPE, Export, FamilyFilter};
use metrics::role::Mode;
use metrics::view::View;
use metrics::{Metric, ProcessFigures, Reading, TABLE, read_all};
use transport::tls::Acceptor;

use crate::answer::{Answer, Body};
use crate::commands::Call;
use crate::http::{
    self, Activity, Answers, BindError, Caller, PortSettings, PortTask, ResponseBody, Workers,
    respond,
};

/// Path of the metrics.
const PATH: &str = "/metrics";

/// Idle time after which a connection ends. Source: Jetty's default.
const IDLE: Duration = Duration::from_secs(30);

/// Methods that Jetty allows.
const ALLOWED: &str = "GET, HEAD, POST, TRACE, OPTIONS";

/// Exporter of this process.
pub struct Exporter {
    export_process_info: bool,
    /// View of the server. It is set after the data has been loaded.
    view: OnceLock<Arc<dyn View + Send + Sync>>,
    workers: Workers,
}

/// Port of the exporter.
pub type ExporterTask = PortTask<Exporter>;

/// Listens on the port and answers requests if the exporter is configured.
///
/// # Errors
/// If the server cannot listen on the address.
pub async fn begin(config: &Config, workers: &Workers) -> Result<Option<ExporterTask>, BindError> {
    let MetricsExporter::Prometheus {
        host,
        port,
        export_process_info,
    } = &config.metrics.exporter
    else {
        return Ok(None);
    };
    let exporter = Exporter {
        export_process_info: *export_process_info,
        view: OnceLock::new(),
        workers: workers.clone(),
    };
    let settings = PortSettings {
        name: "the exporter",
        host: host.clone(),
        port: *port,
        acceptor: Acceptor::plain(),
        idle: IDLE,
    };
    let address = format!("{}:{}", settings.host, settings.port);
    let task = http::listen(settings, Arc::new(exporter)).await?;
    tracing::info!(address, "metrics exporter listens");
    Ok(Some(task))
}

impl Exporter {
    /// Provides the metrics of the server after the data has been loaded.
    pub fn serve(&self, view: Arc<dyn View + Send + Sync>) {
        // The view is set only once, at the start.
        let _ = self.view.set(view);
    }

    fn text(&self, wanted: &FamilyFilter) -> String {
        let readings = self.readings();
        let process = self
            .export_process_info
            .then(ProcessFigures::of_this_process);
        let export = Export {
            readings: &readings,
            process,
        };
        export.print(wanted)
    }

    fn readings(&self) -> Vec<(&'static Metric, Reading)> {
        let Some(view) = self.view.get() else {
            return Vec::new();
        };
        let mut readings = read_all(&**view);
        if let Mode::Follower {
            synced_observers: None,
        } = view.role().mode
        {
            // A follower that does not accept observers lacks this number. Java's simpleclient then
            // reports 0.
            let metric = TABLE
                .iter()
                .find(|metric| metric.name == "synced_observers");
            readings.extend(metric.map(|metric| (metric, Reading::Number(0_i64.into()))));
        }
        readings
    }
}

impl Answers for Exporter {
    async fn answer(
        self: Arc<Self>,
        request: Request<Incoming>,
        _caller: Caller,
        activity: Activity,
    ) -> Response<ResponseBody> {
        let uri = request.uri();
        let status = match (request.method(), uri.path()) {
            (&Method::TRACE, _) => StatusCode::FORBIDDEN,
            (_, path) if path != PATH => {
                return respond(Answer::page(StatusCode::NOT_FOUND, path, "Not Found"));
            }
            (&Method::GET | &Method::HEAD | &Method::POST, _) => {
                let call = Call::parse(uri.query());
                let names = call
                    .parameters
                    .into_iter()
                    .filter(|(key, _)| key == "name[]");
                let wanted = FamilyFilter::new(names.map(|(_, name)| name));
                // The work reads counters of the tree and some system files, so it does not run on
                // a thread that serves clients.
                let (exporter, at_work) = (self.clone(), activity.begin());
                let text = self.workers.run(move |_| {
                    let _at_work = at_work;
                    exporter.text(&wanted)
                });
                let text = text.await;
                return match text {
                    Ok(text) => respond(Answer {
                        status: StatusCode::OK,
                        headers: Vec::new(),
                        body: Body::Bytes(Some(CONTENT_TYPE), text.into_bytes()),
                    }),
                    Err(_) => respond(Answer::status(StatusCode::INTERNAL_SERVER_ERROR)),
                };
            }
            (&Method::OPTIONS, _) => {
                let allowed = Answer::status(StatusCode::OK).with_header("allow", ALLOWED);
                return respond(allowed);
            }
            (&Method::PUT | &Method::DELETE, _) => StatusCode::METHOD_NOT_ALLOWED,
            _ => StatusCode::NOT_IMPLEMENTED,
        };
        respond(Answer::status(status))
    }
}
