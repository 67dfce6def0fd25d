//! Exec plugins: a command that prints a credential. Here is what the kubeconfig says about one, and how it is run
//! once; when to run it again is the transport's business.

use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::io::AsyncReadExt;
use tokio::process::Child;

use super::ConfigError;
use crate::metrics::{PluginCall, TransportMetrics};

/// How to obtain a credential by running a command.
#[derive(Clone, PartialEq)]
pub struct ExecConfig {
    pub command: PathBuf,
    pub args: Vec<String>,
    pub env: Vec<(String, String)>,
    pub version: ExecVersion,
    /// What to tell a user who does not have the command.
    pub install_hint: String,
    /// What the plugin is told about the cluster, where it asks for it.
    pub cluster: Option<serde_json::Value>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExecVersion {
    V1,
    V1Beta1,
}

/// What a plugin answered.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct ExecCredential {
    pub(crate) token: Option<String>,
    /// Certificate chain and key in PEM.
    pub(crate) certificate: Option<(Vec<u8>, Vec<u8>)>,
    pub(crate) expires_at: Option<api::MicroTime>,
}

/// A plugin may open a browser or wait for a slow identity provider; beyond this it hangs.
const PLUGIN_TIMEOUT: Duration = Duration::from_secs(60);

/// Credentials are a few kilobytes; a plugin that prints more is no credential plugin.
const MAX_OUTPUT_BYTES: usize = 1 << 20;

impl ExecVersion {
    fn as_str(self) -> &'static str {
        match self {
            ExecVersion::V1 => "client.authentication.k8s.io/v1",
            ExecVersion::V1Beta1 => "client.authentication.k8s.io/v1beta1",
        }
    }
}

impl ExecConfig {
    /// Runs the plugin once, and counts how it ended.
    pub(crate) async fn run(
        &self,
        metrics: &TransportMetrics,
    ) -> Result<ExecCredential, ConfigError> {
        let finished = self.output().await;
        metrics.plugin_called(match &finished {
            Ok(_) => PluginCall::Succeeded,
            Err((call, _)) => *call,
        });
        let output = finished.map_err(|(_, error)| error)?;
        parse(&output, self.version).map_err(|problem| self.failed(problem))
    }

    /// What the plugin prints.
    async fn output(&self) -> Result<Vec<u8>, (PluginCall, ConfigError)> {
        let input = Input {
            kind: "ExecCredential",
            api_version: self.version.as_str(),
            spec: Spec {
                interactive: false,
                cluster: self.cluster.as_ref(),
            },
        };
        let input =
            serde_json::to_string(&input).expect("strings and JSON values always serialise");
        let mut command = tokio::process::Command::new(&self.command);
        command
            .args(&self.args)
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .env("KUBERNETES_EXEC_INFO", input)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .kill_on_drop(true);
        let mut child = command
            .spawn()
            .map_err(|error| (PluginCall::NotFound, self.not_started(&error)))?;
        let broken = |problem: String| (PluginCall::Broken, self.failed(problem));
        let Ok(finished) = tokio::time::timeout(PLUGIN_TIMEOUT, output_of(&mut child)).await else {
            let seconds = PLUGIN_TIMEOUT.as_secs();
            return Err(broken(format!("no answer within {seconds} s")));
        };
        let (status, output) = finished.map_err(|error| broken(error.to_string()))?;
        if !status.success() {
            // UPSTREAM: a plugin that a signal ended has the code -1.
            let code = status.code().unwrap_or(-1);
            let error = self.failed(format!("it ended with {status}"));
            return Err((PluginCall::Failed(code), error));
        }
        Ok(output)
    }

    /// Where the kubeconfig gives a path, it is relative to the kubeconfig; a bare name is looked up in `PATH`.
    pub(super) fn locate(command: &str, kubeconfig_directory: &Path) -> PathBuf {
        if command.contains(std::path::MAIN_SEPARATOR) {
            kubeconfig_directory.join(command)
        } else {
            PathBuf::from(command)
        }
    }

    fn not_started(&self, error: &std::io::Error) -> ConfigError {
        if error.kind() == std::io::ErrorKind::NotFound && !self.install_hint.is_empty() {
            return self.failed(format!(
                "the command is not there. {}",
                self.install_hint.trim()
            ));
        }
        if error.kind() == std::io::ErrorKind::NotFound {
            return self.failed(
                "the command is not there; install it or correct the kubeconfig".to_owned(),
            );
        }
        self.failed(error.to_string())
    }

    pub(crate) fn failed(&self, problem: String) -> ConfigError {
        ConfigError::Exec {
            command: self.command.display().to_string(),
            problem,
        }
    }
}

async fn output_of(child: &mut Child) -> std::io::Result<(ExitStatus, Vec<u8>)> {
    let mut output = Vec::new();
    if let Some(stdout) = child.stdout.take() {
        let limit = u64::try_from(MAX_OUTPUT_BYTES).unwrap_or(u64::MAX);
        // Reading stops at the limit and closes the pipe: whoever prints on is ended by that.
        stdout.take(limit).read_to_end(&mut output).await?;
    }
    Ok((child.wait().await?, output))
}

fn parse(output: &[u8], version: ExecVersion) -> Result<ExecCredential, String> {
    let output: Output = serde_json::from_slice(output)
        .map_err(|error| format!("what it printed is not an ExecCredential ({error})"))?;
    if output.kind != "ExecCredential" || output.api_version != version.as_str() {
        return Err(format!(
            "the kubeconfig expects ExecCredential of {}, it printed {} of {}",
            version.as_str(),
            output.kind,
            output.api_version
        ));
    }
    let status = output.status.ok_or("it printed no status")?;
    let token = status.token.filter(|token| !token.is_empty());
    let given = |text: Option<String>| text.filter(|text| !text.is_empty()).map(String::into_bytes);
    let certificate = match (
        given(status.client_certificate_data),
        given(status.client_key_data),
    ) {
        (Some(certificate), Some(key)) => Some((certificate, key)),
        (None, None) => None,
        _ => return Err("it printed only one of certificate and key".to_owned()),
    };
    if token.is_none() && certificate.is_none() {
        return Err("it printed neither a token nor a certificate".to_owned());
    }
    let expires_at = match status.expiration_timestamp {
        None => None,
        Some(text) => {
            let time = api::MicroTime::parse(&text);
            Some(time.ok_or_else(|| format!("its expirationTimestamp {text:?} is not a time"))?)
        }
    };
    Ok(ExecCredential {
        token,
        certificate,
        expires_at,
    })
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Input<'a> {
    kind: &'static str,
    api_version: &'static str,
    spec: Spec<'a>,
}

#[derive(Serialize)]
struct Spec<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    cluster: Option<&'a serde_json::Value>,
    interactive: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Output {
    kind: String,
    api_version: String,
    status: Option<OutputStatus>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OutputStatus {
    token: Option<String>,
    client_certificate_data: Option<String>,
    client_key_data: Option<String>,
    expiration_timestamp: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> ExecConfig {
        ExecConfig {
            command: PathBuf::from("/bin/sh"),
            args: vec!["-c".into(), script.into()],
            env: vec![("SECRET".into(), "s3".into())],
            version: ExecVersion::V1,
            install_hint: String::new(),
            cluster: None,
        }
    }

    #[tokio::test]
    async fn a_plugin_sees_its_environment_and_is_believed() {
        let plugin = shell(
            r#"case "$KUBERNETES_EXEC_INFO" in *'"interactive":false'*) ;; *) exit 3;; esac
            echo "{\"kind\":\"ExecCredential\",\"apiVersion\":\"client.authentication.k8s.io/v1\",
            \"status\":{\"token\":\"t-$SECRET\",\"expirationTimestamp\":\"2030-01-01T00:00:00Z\"}}""#,
        );
        let metrics = TransportMetrics::unseen().unwrap();
        let credential = plugin.run(&metrics).await.unwrap();
        assert_eq!(credential.token.as_deref(), Some("t-s3"));
        assert_eq!(
            credential.expires_at,
            api::MicroTime::parse("2030-01-01T00:00:00Z")
        );
    }

    #[tokio::test]
    async fn what_is_wrong_with_a_plugin_is_said_in_a_sentence() {
        async fn check(plugin: ExecConfig, problem: &str) {
            let error = plugin
                .run(&TransportMetrics::unseen().unwrap())
                .await
                .err()
                .expect("the plugin was believed")
                .to_string();
            assert!(error.contains(problem), "{error}\n  lacks {problem}");
        }
        let status = |status: &str| {
            shell(&format!(
                r#"echo '{{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","status":{status}}}'"#
            ))
        };
        check(shell("exit 7"), "it ended with exit status: 7").await;
        check(shell("echo hello"), "is not an ExecCredential").await;
        check(status("null"), "no status").await;
        check(status("{}"), "neither a token nor a certificate").await;
        check(
            status(r#"{"clientKeyData":"x"}"#),
            "only one of certificate and key",
        )
        .await;
        check(
            status(r#"{"token":"x","expirationTimestamp":"soon"}"#),
            "\"soon\" is not a time",
        )
        .await;
        let old = ExecConfig {
            version: ExecVersion::V1Beta1,
            ..status(r#"{"token":"x"}"#)
        };
        check(
            old,
            "expects ExecCredential of client.authentication.k8s.io/v1beta1",
        )
        .await;
        let missing = ExecConfig {
            command: "/nonexistent/login".into(),
            ..shell("")
        };
        check(missing.clone(), "install it or correct the kubeconfig").await;
        check(
            ExecConfig {
                install_hint: "Get it at example.com.".into(),
                ..missing
            },
            "Get it at example.com.",
        )
        .await;
    }

    #[tokio::test]
    async fn a_plugin_that_hangs_is_ended() {
        tokio::time::pause();
        let error = shell("exec sleep 600")
            .run(&TransportMetrics::unseen().unwrap())
            .await
            .err()
            .expect("the plugin was believed");
        assert!(
            error.to_string().contains("no answer within 60 s"),
            "{error}"
        );
    }
}
