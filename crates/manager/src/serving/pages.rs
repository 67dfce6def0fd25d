//! The pages that every component of Kubernetes has: health, metrics, configuration, flags, status, verbosity.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use api::{Clock, Time};
use http::{Method, StatusCode, header};
use serde::Serialize;
use tracing::info;

use super::health::{Endpoint, Health};
use super::router::{Reply, Request, Router, json, reply, text};
use crate::flags::{Flag, Kind, Value};
use crate::logging::Verbosity;
use crate::metrics::ProcessMetrics;
use crate::options::Options;
use crate::version;

/// What the pages show.
#[derive(Clone)]
pub struct Pages {
    pub options: Arc<Options>,
    pub health: Arc<Health>,
    pub metrics: Arc<ProcessMetrics>,
    pub verbosity: Arc<Verbosity>,
    pub clock: Clock,
    pub started: Time,
}

const COMPONENT: &str = "kube-controller-manager";

/// Adds the pages to a router.
pub fn register(router: &Arc<Router>, pages: Pages) {
    for endpoint in Endpoint::ALL {
        let health = Arc::clone(&pages.health);
        let path = format!("/{}", endpoint.name());
        router.handle(&path, move |request| health.answer(endpoint, &request));
    }
    let metrics = Arc::clone(&pages.metrics);
    router.handle("/metrics", move |_| {
        reply(
            StatusCode::OK,
            runtime::metrics::CONTENT_TYPE,
            metrics.render(),
        )
    });
    let health = Arc::clone(&pages.health);
    router.handle("/metrics/slis", move |_| {
        reply(
            StatusCode::OK,
            runtime::metrics::CONTENT_TYPE,
            health.indicators(),
        )
    });
    let options = Arc::clone(&pages.options);
    router.handle("/configz", move |_| json(StatusCode::OK, configz(&options)));
    let verbosity = Arc::clone(&pages.verbosity);
    router.handle("/debug/flags/v", move |request| {
        set_verbosity(&verbosity, &request)
    });
    if pages.options.gates.enabled("ComponentFlagz") {
        let options = Arc::clone(&pages.options);
        router.handle("/flagz", move |request| flagz(&options, &request));
    }
    if pages.options.gates.enabled("ComponentStatusz") {
        // Weak, because the router holds the handler.
        let known = Arc::downgrade(router);
        router.handle("/statusz", move |request| {
            let paths = known
                .upgrade()
                .map(|router| router.paths())
                .unwrap_or_default();
            statusz(&pages, &request, paths)
        });
    }
}

fn configz(options: &Options) -> String {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Component<'a> {
        kind: &'static str,
        api_version: &'static str,
        #[serde(flatten)]
        config: &'a crate::config::Config,
    }
    let group = "kubecontrollermanager.config.k8s.io";
    let component = Component {
        kind: "KubeControllerManagerConfiguration",
        api_version: "kubecontrollermanager.config.k8s.io/v1alpha1",
        config: &options.config,
    };
    serde_json::to_string(&BTreeMap::from([(group, component)]))
        .expect("settings are plain data and always serialize")
}

/// `PUT /debug/flags/v` with a number.
fn set_verbosity(verbosity: &Verbosity, request: &Request) -> Reply {
    if request.method != Method::PUT {
        return text(StatusCode::NOT_ACCEPTABLE, "unsupported http method");
    }
    let body = String::from_utf8_lossy(&request.body);
    match body
        .trim()
        .parse::<u32>()
        .ok()
        .filter(|level| i32::try_from(*level).is_ok())
    {
        Some(level) => {
            verbosity.set(level);
            info!(level, "Verbosity was changed");
            text(
                StatusCode::OK,
                format!("successfully set klog.logging.verbosity to {level}"),
            )
        }
        None => {
            let problem = format!(
                "failed set klog.logging.verbosity {body}: must be a whole number, 0 or more"
            );
            text(StatusCode::BAD_REQUEST, problem)
        }
    }
}

/// How a caller wants a page that is text for people and JSON for programs.
#[derive(Debug, PartialEq)]
enum Form {
    Text,
    Json(&'static str),
}

/// What the Accept header asks for; none if it asks for something the page does not have.
fn negotiate(request: &Request, kind: &str) -> Option<Form> {
    let accept = request
        .headers
        .get(header::ACCEPT)
        .map_or("*/*", |value| value.to_str().unwrap_or(""));
    accept.split(',').find_map(|choice| {
        let mut parts = choice.split(';').map(str::trim);
        let media = parts.next()?;
        let parameter = |wanted: &str| {
            choice
                .split(';')
                .skip(1)
                .map(str::trim)
                .find_map(|part| part.strip_prefix(wanted)?.strip_prefix('='))
        };
        match media {
            "text/plain" | "text/*" | "*/*" => Some(Form::Text),
            "application/json"
                if parameter("as") == Some(kind) && parameter("g") == Some("config.k8s.io") =>
            {
                match parameter("v") {
                    Some("v1beta1") => Some(Form::Json("config.k8s.io/v1beta1")),
                    Some("v1alpha1") => Some(Form::Json("config.k8s.io/v1alpha1")),
                    _ => None,
                }
            }
            _ => None,
        }
    })
}

fn not_acceptable(kind: &str) -> Reply {
    let body = format!(
        "ask for text/plain, or for application/json;v=v1beta1;g=config.k8s.io;as={kind}\n"
    );
    text(StatusCode::NOT_ACCEPTABLE, body)
}

const NOTICE: &str = "Warning: made for people and debugging; the format may change at any time.";

fn flagz(options: &Options, request: &Request) -> Reply {
    let shown = |flag: &Flag, value: &Value| match value {
        // UPSTREAM: the only list without brackets.
        Value::List(items) if flag.kind == Kind::FeatureGates => items.join(","),
        value => value.to_string(),
    };
    let flags: BTreeMap<&str, String> = options
        .flags
        .iter()
        .map(|(flag, value)| (flag.name, shown(flag, value)))
        .collect();
    match negotiate(request, "Flagz") {
        Some(Form::Text) => {
            let mut body = format!("\n{COMPONENT} flagz\n{NOTICE}\n\n");
            for (name, value) in flags {
                // Writing to a String cannot fail.
                let _ = writeln!(body, "{name}={value}");
            }
            text(StatusCode::OK, body)
        }
        Some(Form::Json(version)) => {
            let object = serde_json::json!({
                "kind": "Flagz",
                "apiVersion": version,
                "metadata": {"name": COMPONENT},
                "flags": flags,
            });
            json(StatusCode::OK, object.to_string())
        }
        None => not_acceptable("Flagz"),
    }
}

fn statusz(pages: &Pages, request: &Request, paths: Vec<String>) -> Reply {
    let uptime = pages
        .clock
        .now()
        .time()
        .unix()
        .saturating_sub(pages.started.unix())
        .max(0);
    let binary = version::GIT_VERSION.trim_start_matches('v');
    let emulated = pages.options.gates.versions().emulated.to_string();
    match negotiate(request, "Statusz") {
        Some(Form::Text) => {
            let (hours, minutes, seconds) = (uptime / 3600, uptime / 60 % 60, uptime % 60);
            let body = format!(
                "\n{COMPONENT} statusz\n{NOTICE}\n\nStarted: {}\nUp: {hours} hr {minutes:02} min {seconds:02} sec\n\
                 Binary version: {binary}\nEmulation version: {emulated}\nPaths: {}\n",
                pages.started,
                paths.join(" "),
            );
            text(StatusCode::OK, body)
        }
        Some(Form::Json(api_version)) => {
            let object = serde_json::json!({
                "kind": "Statusz",
                "apiVersion": api_version,
                "metadata": {"name": COMPONENT},
                "startTime": pages.started,
                "uptimeSeconds": uptime,
                "goVersion": version::COMPILER,
                "binaryVersion": binary,
                "emulationVersion": emulated,
                "paths": paths,
            });
            json(StatusCode::OK, object.to_string())
        }
        None => not_acceptable("Statusz"),
    }
}
