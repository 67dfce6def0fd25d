use std::collections::BTreeMap;

use super::*;

/// A server with these limits.
fn limited(limits: &Value) -> crate::Settings {
    let plugins = Plugins::chosen(&["EventRateLimit".to_owned()], &[]).unwrap();
    let configuration = json!({"apiVersion": "eventratelimit.admission.k8s.io/v1alpha1", "kind": "Configuration",
        "limits": limits});
    let told = BTreeMap::from([("EventRateLimit".to_owned(), configuration)]);
    crate::Settings {
        plugins,
        plugin_settings: PluginSettings::new(plugins, &told, |_| unreachable!()).unwrap(),
        ..crate::Settings::default()
    }
}

/// A request in the namespace and by the user of this name.
struct Sent<'a> {
    api_version: &'a str,
    kind: &'a str,
    name: &'a str,
    event: Value,
    dry_run: bool,
    at: u64,
}

/// What is said to it: nothing if it is taken.
fn said_to(settings: &crate::Settings, sent: &Sent<'_>) -> String {
    let registry = Registry::default();
    let asked = registry.kind(sent.api_version, sent.kind).unwrap();
    let request = Request {
        operation: Operation::Create,
        kind: asked,
        namespace: sent.name,
        name: "e",
        subresource: None,
        asked,
        object_type: None,
        is_admitted: false,
        dry_run: sent.dry_run,
        options: &Value::Null,
    };
    let context = Context {
        cluster: &Store::of(&[]),
        user: &Identity::new(sent.name, &[]),
        random: &api::Rng::from_seed(7),
        networks: &Networks::default(),
        settings,
        now: api::Time::from_unix(i64::try_from(sent.at).unwrap()).micro(),
    };
    match review(
        &context,
        &request,
        &sent.event,
        None,
        &mut Verdict::default(),
    ) {
        Ok(()) => String::new(),
        Err(status) => {
            assert_eq!((status.code, status.reason), (429, "TooManyRequests"));
            status.message
        }
    }
}

/// What is said to requests that follow one another: each is a letter, which stands for its namespace, its user and
/// the component that it comes from. `-` is no event, `=` one of events.k8s.io, `~A` a dry run, `+A` comes a second later.
fn said(limits: &Value, requests: &str) -> Vec<String> {
    let settings = limited(limits);
    let mut at = 0;
    let mut said = Vec::new();
    for request in requests.split_whitespace() {
        let name = request.trim_start_matches(['+', '~']);
        at += u64::from(request.starts_with('+'));
        let (api_version, kind) = match name {
            "-" => ("v1", "ConfigMap"),
            "=" => ("events.k8s.io/v1", "Event"),
            _ => ("v1", "Event"),
        };
        let sent = Sent {
            api_version,
            kind,
            name,
            event: json!({"source": {"component": name}}),
            dry_run: request.starts_with('~'),
            at,
        };
        said.push(said_to(&settings, &sent));
    }
    said
}

/// Which of the requests are refused: those with an exclamation mark.
#[track_caller]
fn check(limits: &Value, requests: &str) {
    let marked: Vec<bool> = requests
        .split_whitespace()
        .map(|one| one.ends_with('!'))
        .collect();
    let said = said(limits, &requests.replace('!', ""));
    let refused: Vec<bool> = said.iter().map(|said| !said.is_empty()).collect();
    assert_eq!(refused, marked, "{requests}: {said:?}");
}

/// UPSTREAM: TestEventRateLimiting.
#[test]
fn events_are_refused_once_their_buckets_are_empty() {
    let server = json!([{"type": "Server", "qps": 1, "burst": 3}]);
    check(&server, "A");
    check(&server, "-");
    check(&server, "A A A A!");
    check(&server, "A A ~A ~A ~A ~A A A! ~A");
    check(&server, "A A A -");
    check(&server, "A A - A");
    check(&server, "A A A A! +A A!");
    check(&server, "A B C D!");
    // UPSTREAM: they are of another kind.
    check(&server, "A A A A! =");
    for kind in ["Namespace", "User", "SourceAndObject"] {
        let limits = |cache_size: i32| {
            json!([{"type": "Server", "qps": 1, "burst": 100},
                {"type": kind, "qps": 1, "burst": 3, "cacheSize": cache_size}])
        };
        check(&limits(10), "A A A A!");
        check(&limits(10), "A A A B");
        check(&limits(10), "A A B A");
        check(&limits(10), "A A A A! +A A!");
        check(&limits(10), "A A A B A!");
        // C takes the place of B, which nobody asked about for longest.
        check(&limits(2), "A A B B B A B! A! C A! B");
        // Left out, there is room for all of these.
        check(&limits(0), "A A A B C D E A!");
    }
}

#[test]
fn each_limit_that_is_reached_is_named() {
    let one = |kind: &str| json!({"type": kind, "qps": 1, "burst": 1});
    let kinds = ["Server", "Namespace", "User", "SourceAndObject"];
    let limits: Vec<Value> = kinds.map(one).into();
    assert_eq!(
        said(&json!(limits), "A A")[1],
        "Too many requests: [limit reached on type Server for key , limit reached on type Namespace for key A, limit reached \
         on type User for key A, limit reached on type SourceAndObject for key A]"
    );
    assert_eq!(
        said(&json!([one("User")]), "A A")[1],
        "Too many requests: limit reached on type User for key A"
    );
}

/// UPSTREAM: the rows of TestEventRateLimiting about what is in the key of a source and an object.
#[test]
fn a_source_and_its_object_have_a_bucket() {
    let paths = [
        "source.host",
        "involvedObject.kind",
        "involvedObject.namespace",
        "involvedObject.name",
        "involvedObject.uid",
        "involvedObject.apiVersion",
    ];
    for path in paths {
        let settings = limited(&json!([{"type": "SourceAndObject", "qps": 1, "burst": 1}]));
        let refused = ["A", "A", "B"].map(|label| {
            let mut event = json!({});
            crate::fields::set(&mut event, path, label);
            let sent = Sent {
                api_version: "v1",
                kind: "Event",
                name: "ns",
                event,
                dry_run: false,
                at: 0,
            };
            !said_to(&settings, &sent).is_empty()
        });
        assert_eq!(refused, [false, true, false], "{path}");
    }
}
