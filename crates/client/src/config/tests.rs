//! What a kubeconfig says, and what is said about a bad one.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

/// A directory of its own for each test, removed at the end.
pub(crate) struct Directory(pub(crate) PathBuf);

impl Directory {
    pub(crate) fn new() -> Directory {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path =
            std::env::temp_dir().join(format!("steersman-client-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Directory(path)
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, content).unwrap();
        path
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

const FULL: &str = r#"
apiVersion: v1
kind: Config
current-context: dev
preferences: {}
clusters:
- name: c1
  cluster:
    server: https://10.0.0.1:6443/k8s/clusters/c-1/
    certificate-authority: pki/ca.crt
    tls-server-name: kubernetes.default
    proxy-url: http://proxy:3128
- name: c2
  cluster: {server: "https://[::1]:6443", insecure-skip-tls-verify: true}
- name: plain
  cluster: {server: "http://localhost:8001"}
contexts:
- name: dev
  context: {cluster: c1, user: certs, namespace: shop}
- {name: exec, context: {cluster: c1, user: exec}}
- {name: token, context: {cluster: c2, user: token}}
- {name: token-file, context: {cluster: c2, user: token-file}}
- {name: basic, context: {cluster: c2, user: basic}}
- {name: nobody, context: {cluster: c2}}
- {name: plain, context: {cluster: plain, user: token}}
- {name: dangling, context: {cluster: c9, user: token}}
- {name: dangling-user, context: {cluster: c1, user: u9}}
users:
- name: certs
  user: {client-certificate-data: Y2VydA==, client-key: pki/key.pem}
- name: token
  user: {token: sesame, as: alice, as-groups: [a, b], as-user-extra: {reason: [test]}}
- name: token-file
  user: {token: stale, tokenFile: token}
- name: basic
  user: {username: u, password: p}
- name: exec
  user:
    exec:
      apiVersion: client.authentication.k8s.io/v1beta1
      command: bin/login
      args: [--now]
      env: [{name: A, value: b}]
      provideClusterInfo: false
      interactiveMode: IfAvailable
"#;

fn resolve(text: &str, context: Option<&str>) -> Result<Config, ConfigError> {
    let directory = Directory::new();
    let path = directory.write("config", text);
    let mut config = Config::from_environment(Some(&path), context, &Environment::default())?;
    // File names are told relative to the kubeconfig, so that tests can name them.
    let relative = |path: &mut PathBuf| {
        if let Ok(rest) = path.strip_prefix(&directory.0) {
            *path = rest.to_owned();
        }
    };
    if let Some(Material::File(path)) = &mut config.tls.authorities {
        relative(path);
    }
    if let Some(Material::File(path)) = config.tls.client.as_mut().map(|client| &mut client.key) {
        relative(path);
    }
    match &mut config.auth {
        Auth::TokenFile(path) => relative(path),
        Auth::Exec(exec) => relative(&mut exec.command),
        _ => {}
    }
    Ok(config)
}

#[test]
fn the_current_context_is_resolved_in_full() {
    let config = resolve(FULL, None).unwrap();
    assert_eq!(
        config.server.to_string(),
        "https://10.0.0.1:6443/k8s/clusters/c-1"
    );
    assert_eq!(config.namespace.as_deref(), Some("shop"));
    assert_eq!(config.proxy.unwrap().to_string(), "http://proxy:3128/");
    assert_eq!(
        config.tls,
        TlsSettings {
            authorities: Some(Material::File("pki/ca.crt".into())),
            client: Some(ClientCertificate {
                certificate: Material::Inline(b"cert".to_vec()),
                key: Material::File("pki/key.pem".into()),
            }),
            server_name: Some("kubernetes.default".into()),
            insecure: false,
        }
    );
}

#[test]
fn every_kind_of_identity() {
    let auth = |context| resolve(FULL, Some(context)).unwrap().auth;
    assert!(auth("token") == Auth::Token("sesame".into()));
    assert!(
        auth("token-file") == Auth::TokenFile("token".into()),
        "the file wins, it is the fresh one"
    );
    assert!(
        auth("basic")
            == Auth::Basic {
                username: "u".into(),
                password: "p".into()
            }
    );
    assert!(auth("nobody") == Auth::None);
    assert!(
        auth("plain") == Auth::None,
        "a token was about to be sent without TLS"
    );
    let Auth::Exec(exec) = auth("exec") else {
        panic!("no exec plugin")
    };
    assert_eq!(exec.command, PathBuf::from("bin/login"));
    assert_eq!(
        (exec.args, exec.env),
        (vec!["--now".into()], vec![("A".into(), "b".into())])
    );
    let acting = resolve(FULL, Some("token")).unwrap().impersonate.unwrap();
    assert_eq!(
        (
            acting.user.as_str(),
            acting.groups.len(),
            acting.extra.len()
        ),
        ("alice", 2, 1)
    );
}

#[test]
fn the_first_file_wins_and_missing_ones_are_skipped() {
    let directory = Directory::new();
    let one = directory.write(
        "one",
        "contexts: [{name: a, context: {cluster: c, user: u}}]\nusers: [{name: u, user: {token: first}}]\n",
    );
    let two = directory.write(
        "two",
        "current-context: a\nclusters: [{name: c, cluster: {server: 'https://two'}}]\n\
         users: [{name: u, user: {token: second, as: bob}}]\ncontexts:\n",
    );
    let list = std::env::join_paths([directory.0.join("absent"), one, two]).unwrap();
    let environment = Environment {
        kubeconfig: Some(list),
        ..Environment::default()
    };
    let config = Config::from_environment(None, None, &environment).unwrap();
    assert_eq!(config.server.to_string(), "https://two");
    assert!(config.auth == Auth::Token("first".into()));
    assert_eq!(config.impersonate, None, "entries are taken whole");
}

#[test]
fn flags_choose_between_kubeconfig_master_and_pod() {
    let directory = Directory::new();
    let path = directory.write("config", FULL);
    let nowhere = Environment::default();
    let both = Config::from_flags(Some(&path), Some("https://other:1"), &nowhere).unwrap();
    assert_eq!(both.server.to_string(), "https://other:1");
    assert!(both.tls.client.is_some(), "the identity stays");
    let master = Config::from_flags(None, Some("10.0.0.1:8080"), &nowhere).unwrap();
    assert_eq!(master.server.to_string(), "http://10.0.0.1:8080");
    assert!(matches!(
        Config::from_flags(None, Some(""), &nowhere),
        Err(ConfigError::NotInCluster)
    ));

    directory.write("token", "abc");
    directory.write("namespace", "kube-system\n");
    let pod = Environment {
        service_host: Some("fd00::1".into()),
        service_port: Some("443".into()),
        service_account: directory.0.clone(),
        ..Environment::default()
    };
    let config = Config::from_flags(None, None, &pod).unwrap();
    assert_eq!(config.server.to_string(), "https://[fd00::1]:443");
    assert_eq!(
        (config.server.host(), config.server.port()),
        ("fd00::1", 443)
    );
    assert_eq!(
        config.tls.authorities,
        Some(Material::File(directory.0.join("ca.crt")))
    );
    assert!(config.auth == Auth::TokenFile(directory.0.join("token")));
    assert_eq!(config.namespace.as_deref(), Some("kube-system"));
}

#[test]
fn bad_input_is_answered_with_a_sentence() {
    let check = |text: &str, context: Option<&str>, expected: &str| {
        let message = match resolve(text, context) {
            Ok(config) => format!("accepted: {config:?}"),
            Err(error) => crate::describe(&error),
        };
        assert!(message.contains(expected), "{message}\n  lacks {expected}");
        assert!(!message.contains('\n'), "more than one line: {message}");
    };
    check(
        "clusters: [",
        None,
        "; `kubectl config view` should be able to read it",
    );
    check(
        "clusters: 7",
        None,
        "invalid type: integer `7`, expected a sequence",
    );
    check("- a\n- b", None, "is malformed");
    check("hello", None, "expected the map that a kubeconfig is");
    check("clusters: [a]", None, "expected a map with a name");
    check(
        "users: [{name: a, user: b}]",
        None,
        "expected the map of a user",
    );
    check("{}", None, "no current-context");
    check("", None, "no current-context");
    check(
        FULL,
        Some("prod"),
        "has no context \"prod\"; it has \"dev\", \"exec\"",
    );
    check(
        FULL,
        Some("dangling"),
        "context \"dangling\" of the kubeconfig names the cluster \"c9\"",
    );
    check(FULL, Some("dangling-user"), "names the user \"u9\"");
    let with = |cluster: &str, user: &str| {
        format!(
            "current-context: x\ncontexts: [{{name: x, context: {{cluster: c, user: u}}}}]\n\
             clusters: [{{name: c, cluster: {{{cluster}}}}}]\nusers: [{{name: u, user: {{{user}}}}}]\n"
        )
    };
    let good = "server: 'https://a'";
    check(
        &with("", ""),
        None,
        "server of the kubeconfig's \"c\" cannot be used: it is empty",
    );
    check(
        &with("server: 'ftp://a'", ""),
        None,
        "neither https nor http; it should look like https://10.0.0.1:6443",
    );
    check(
        &with("server: 'https://'", ""),
        None,
        "cannot be the address of an API server",
    );
    check(&with("server: 'a b'", ""), None, "it is not a URL");
    check(
        &with(&format!("{good}, certificate-authority-data: '!'"), ""),
        None,
        "not base64",
    );
    check(
        &with(
            &format!("{good}, certificate-authority: x, insecure-skip-tls-verify: true"),
            "",
        ),
        None,
        "remove one of the two",
    );
    check(
        &with(&format!("{good}, proxy-url: 'socks5://p'"), ""),
        None,
        "only http:// proxies are supported",
    );
    check(
        &with(good, "client-certificate: x"),
        None,
        "its client-key is missing",
    );
    check(
        &with(good, "auth-provider: {name: gcp}"),
        None,
        "use an exec plugin",
    );
    check(
        &with(good, "exec: {command: x, apiVersion: v1alpha1}"),
        None,
        "apiVersion \"v1alpha1\" is not",
    );
    let exec =
        "exec: {command: x, apiVersion: client.authentication.k8s.io/v1, interactiveMode: Always}";
    check(&with(good, exec), None, "insists on a terminal");
}

#[test]
fn files_that_are_not_there_are_named() {
    let nowhere = Environment::default();
    let error =
        Config::from_flags(Some(Path::new("/nonexistent/config")), None, &nowhere).unwrap_err();
    assert_eq!(
        crate::describe(&error),
        "cannot read kubeconfig /nonexistent/config: No such file or directory; check --kubeconfig or KUBECONFIG"
    );
    let home = Environment {
        home: Some("/nonexistent".into()),
        ..Environment::default()
    };
    let error = Config::from_environment(None, None, &home).unwrap_err();
    assert_eq!(
        error.to_string(),
        "no kubeconfig found (/nonexistent/.kube/config) and not running in a pod; \
         pass --kubeconfig or set KUBECONFIG"
    );
    // Nor is a context that is asked for looked for in what is not there.
    let named = Config::from_environment(None, Some("prod"), &home).unwrap_err();
    assert_eq!(named.to_string(), error.to_string());
}

#[test]
fn secrets_stay_out_of_debug_output() {
    let shown = format!(
        "{:?} {:?}",
        resolve(FULL, Some("token")),
        resolve(FULL, Some("basic"))
    );
    assert!(
        !shown.contains("sesame") && !shown.contains("\"p\""),
        "{shown}"
    );
    assert!(!format!("{:?}", resolve(FULL, None)).contains("cert\""));
}

#[test]
fn plugins_learn_about_the_cluster_when_they_ask() {
    let text = "current-context: x\ncontexts: [{name: x, context: {cluster: c, user: u}}]\n\
        clusters: [{name: c, cluster: {server: 'https://a', certificate-authority-data: Y2E=, \
          extensions: [{name: client.authentication.k8s.io/exec, extension: {audience: b}}]}}]\n\
        users: [{name: u, user: {exec: {command: x, apiVersion: client.authentication.k8s.io/v1, \
          provideClusterInfo: true, interactiveMode: Never}}}]\n";
    let Auth::Exec(exec) = resolve(text, None).unwrap().auth else {
        panic!("no exec plugin")
    };
    let expected =
        r#"{"certificate-authority-data":"Y2E=","config":{"audience":"b"},"server":"https://a"}"#;
    assert_eq!(exec.cluster.unwrap().to_string(), expected);
}
