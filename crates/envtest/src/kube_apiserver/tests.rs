use expect_test::{expect, expect_file};

use super::*;

fn run(arguments: &[&str]) -> Box<Options> {
    match Options::parse(arguments.iter().copied(), "kube-apiserver", None) {
        Ok(Command::Run(options)) => options,
        Ok(Command::Print(text)) => panic!("{text}"),
        Err(errors) => panic!("{errors}"),
    }
}

fn refused(arguments: &[&str]) -> String {
    match Options::parse(arguments.iter().copied(), "kube-apiserver", None) {
        Ok(_) => panic!("{arguments:?} must be refused"),
        Err(errors) => errors.to_string(),
    }
}

#[test]
fn the_page_is_up_to_date() {
    expect_file!["../../../../docs/kube-apiserver-flags.md"].assert_eq(&markdown());
}

#[test]
fn has_every_flag_of_upstream() {
    let own = table()
        .iter()
        .filter(|flag| flag.section == "steersman")
        .count();
    // kube-apiserver --help, and six that are deprecated and hidden.
    assert_eq!(table().iter().count() - own, 177);
    assert!(table().iter().all(|flag| flag.help.ends_with(['.', '}'])));
}

#[test]
fn help_has_no_flag_that_envtest_would_then_give() {
    let text = help("kube-apiserver");
    assert!(
        text.lines()
            .any(|line| line.trim_start().starts_with("--secure-port"))
    );
    assert!(!text.contains("--insecure-port"));
    assert!(!text.contains("{plugins}") && !text.contains("{gates}"));
}

#[test]
fn gates_of_the_api_are_the_servers_too() {
    let scales_to_zero = |arguments: &[&str]| {
        let gates = run(arguments).settings.gates;
        gates.enabled(api::Gate::HPAScaleToZero)
    };
    assert!(!scales_to_zero(&[]));
    assert!(scales_to_zero(&["--feature-gates=HPAScaleToZero=true"]));
}

#[test]
fn the_defaults_are_upstreams() {
    use apiserver::admission::Plugin;
    use apiserver::auth::Authorizer;
    use apiserver::settings::Anonymous;
    let options = run(&[]);
    assert_eq!(options.address.to_string(), "0.0.0.0:6443");
    assert_eq!(options.settings.authorizers, [Authorizer::AlwaysAllow]);
    assert_eq!(options.settings.anonymous, Anonymous::Refused);
    assert!(!options.settings.plugins.has(Plugin::NodeRestriction));
    assert!(!options.settings.allow_privileged);
    assert!(options.manager.is_none());
    let options = run(&["--authorization-mode=Node,RBAC"]);
    assert_eq!(options.settings.anonymous, Anonymous::Allowed);
}

#[test]
fn what_has_no_effect_is_said() {
    let options = run(&["--etcd-servers=http://127.0.0.1:2379"]);
    expect![[r#"
        [
            "Flag --etcd-servers is accepted but has no effect: Objects are kept by this process",
        ]
    "#]]
    .assert_debug_eq(&options.warnings);
}

/// UPSTREAM: a host without a port gets that of this server.
#[test]
fn the_address_of_the_keys_follows_the_flags() {
    let address = |arguments: &[&str]| run(arguments).settings.service_account_tokens.keys_url;
    assert_eq!(address(&[]), None);
    let host = address(&["--external-hostname=api.example.com", "--secure-port=7443"]);
    assert_eq!(
        host.as_deref(),
        Some("https://api.example.com:7443/openid/v1/jwks")
    );
    let with_port = address(&["--external-hostname=[fd00::1]:8443"]);
    assert_eq!(
        with_port.as_deref(),
        Some("https://[fd00::1]:8443/openid/v1/jwks")
    );
    let given = address(&[
        "--service-account-jwks-uri=https://keys.example.com/jwks",
        "--external-hostname=api.example.com",
    ]);
    assert_eq!(given.as_deref(), Some("https://keys.example.com/jwks"));
    assert_eq!(
        refused(&["--service-account-jwks-uri=http://keys.example.com/jwks"]),
        "--service-account-jwks-uri: requires https scheme, parsed as: http://keys.example.com/jwks"
    );
}

#[test]
fn mistakes_are_all_named_at_once() {
    let wrong = refused(&[
        "--authorization-mode=RBAC,ABAC,Nothing",
        "--enable-admission-plugins=EventRateLimit",
        "--secure-port=0",
        "--service-cluster-ip-range=10.0.0.0",
        "--client-ca-file=/nowhere/ca.crt",
        "--oidc-issuer-url=https://example.com",
    ]);
    expect![[r#"invalid argument "https://example.com" for "--oidc-issuer-url" flag: OpenID Connect is not built yet; use --token-auth-file or client certificates
--authorization-mode: ABAC is not built yet; use RBAC
--authorization-mode: "Nothing" is not a valid mode
--enable-admission-plugins: couldn't init admission plugin "EventRateLimit": limits: Invalid value: null: must not be empty; say it by --admission-control-config-file
--service-cluster-ip-range: "10.0.0.0" is not an address range such as 10.0.0.0/24
--client-ca-file: cannot read /nowhere/ca.crt: No such file or directory (os error 2)
--secure-port: 0 must be between 1 and 65535, inclusive. It cannot be turned off with 0"#]]
    .assert_eq(&wrong.replace("; --", "\n--"));
    assert_eq!(
        refused(&["--secure-prot=1"]),
        "unknown flag: --secure-prot; did you mean --secure-port?"
    );
}

#[test]
fn controllers_come_from_the_flag_or_else_from_the_environment() {
    let parse = |arguments: &[&str], environment: Option<&str>| {
        let environment = environment.map(str::to_owned);
        match Options::parse(arguments.iter().copied(), "kube-apiserver", environment) {
            Ok(Command::Run(options)) => options
                .manager
                .map(|manager| manager.config.generic.controllers),
            _ => panic!("must run"),
        }
    };
    assert_eq!(parse(&[], None), None);
    assert_eq!(parse(&[], Some("")), None);
    assert_eq!(parse(&[], Some("*")), Some(vec!["*".to_owned()]));
    let chosen = parse(&["--controllers=namespace-controller"], Some("*"));
    assert_eq!(chosen, Some(vec!["namespace-controller".to_owned()]));
    assert!(refused(&["--controllers=nothing"]).contains("nothing"));
}

#[test]
fn plugins_are_told_by_files() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let head = "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\n";
    let limits = |qps: i32| {
        format!(
            "apiVersion: eventratelimit.admission.k8s.io/v1alpha1
kind: Configuration
limits: [{{type: Server, qps: {qps}, burst: 1}}]
"
        )
    };
    let config = write(
        "admission.yaml",
        &format!("{head}plugins: [{{name: EventRateLimit, path: limits.yaml}}]"),
    );
    let config = format!("--admission-control-config-file={config}");
    let enable = "--enable-admission-plugins=EventRateLimit";
    let place = folder.path().display().to_string();
    let refused = |arguments: &[&str]| refused(arguments).replace(&place, "DIR");
    assert_eq!(
        refused(&[enable, &config]),
        "--admission-control-config-file: cannot read DIR/limits.yaml: No such file or directory (os error 2)"
    );
    // Nobody reads what is for a plugin that is off.
    run(&[&config]);
    write("limits.yaml", &limits(0));
    assert_eq!(
        refused(&[enable, &config]),
        "--admission-control-config-file: couldn't init admission plugin \"EventRateLimit\": limits[0].qps: Invalid value: 0: must be positive"
    );
    write("limits.yaml", "kind: [");
    let broken = refused(&[enable, &config]);
    assert!(
        broken.starts_with("--admission-control-config-file: DIR/limits.yaml cannot be read: "),
        "{broken}"
    );
    write("limits.yaml", &limits(1));
    run(&[enable, &config]);
    // A file may be the configuration of this plugin itself.
    let kubeconfig = write("kubeconfig", "clusters: []");
    let legacy = write(
        "legacy.yaml",
        &format!("imagePolicy: {{kubeConfigFile: {kubeconfig}}}"),
    );
    let legacy = format!("--admission-control-config-file={legacy}");
    let images = "--enable-admission-plugins=ImagePolicyWebhook";
    let nothing = refused(&[images, &legacy]);
    assert!(
        nothing.starts_with("--admission-control-config-file: couldn't init admission plugin \"ImagePolicyWebhook\": imagePolicy.kubeConfigFile: "),
        "{nothing}"
    );
    write(
        "kubeconfig",
        "current-context: c
contexts: [{name: c, context: {cluster: s, user: u}}]
clusters: [{name: s, cluster: {server: 'https://images.example.com/policy'}}]
users: [{name: u, user: {token: secret}}]
",
    );
    run(&[images, &legacy]);
    let wrong = write("wrong.yaml", "kind: Nothing");
    assert_eq!(
        refused(&[&format!("--admission-control-config-file={wrong}")]),
        "--admission-control-config-file: DIR/wrong.yaml is no admission configuration: Object 'apiVersion' is missing in \
         '{\"kind\":\"Nothing\"}'; it must be AdmissionConfiguration of apiserver.config.k8s.io/v1"
    );
}
