//! ClusterTrustBundles: their names say who vouches for them, and what they hold are certificates of authorities.

use api::syntax;
use keys::pem::{Block, blocks};
use serde_json::Value;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use super::cluster::signer_name;
use super::place::{Errors, Place};

/// UPSTREAM: MaxTrustBundleSize.
const LONGEST: usize = 1024 * 1024;

pub(super) fn create(errors: &mut Errors, root: &Place<'_>) {
    check(errors, root, true);
}

pub(super) fn update(errors: &mut Errors, root: &Place<'_>, old: &Value) {
    // What was taken once stays, whatever a newer reader of certificates thinks of it.
    let is_new = root.field("spec").field("trustBundle").text() != old["spec"]["trustBundle"];
    check(errors, root, is_new);
    let spec = root.field("spec");
    let held = old["spec"].get("signerName").unwrap_or(&Value::Null);
    errors.immutable(&spec.field("signerName"), held);
}

fn check(errors: &mut Errors, root: &Place<'_>, is_new: bool) {
    let (metadata, spec) = (root.field("metadata"), root.field("spec"));
    let signer = spec.field("signerName");
    for (member, is_stem) in [("generateName", true), ("name", false)] {
        let name = metadata.field(member);
        if !name.is_empty() {
            let faults = name_faults(signer.text(), name.text(), is_stem);
            faults.iter().for_each(|fault| errors.invalid(&name, fault));
        }
    }
    if !signer.is_empty() {
        signer_name(errors, &signer);
    }
    if is_new {
        anchors(errors, &spec.field("trustBundle"));
    }
}

/// A bundle of a signer is named after it. What is appended to a stem makes a trailing hyphen fine.
fn name_faults(signer: &str, name: &str, is_stem: bool) -> Vec<String> {
    let subdomain = |name: &str| match name.strip_suffix('-').filter(|_| is_stem) {
        Some(stem) => syntax::validate_dns1123_subdomain(&format!("{stem}a")),
        None => syntax::validate_dns1123_subdomain(name),
    };
    if signer.is_empty() {
        return match name.contains(':') {
            true => vec![
                "ClusterTrustBundle without signer name must not have \":\" in its name".to_owned(),
            ],
            false => subdomain(name),
        };
    }
    let prefix = format!("{}:", signer.replace('/', ":"));
    match name.strip_prefix(&prefix) {
        Some(rest) => subdomain(rest),
        None => vec![format!(
            "ClusterTrustBundle for signerName {signer} must be named with prefix {prefix}"
        )],
    }
}

/// At least one certificate of an authority, each of them once, and nothing else in PEM.
fn anchors(errors: &mut Errors, bundle: &Place<'_>) {
    if bundle.text().len() > LONGEST {
        errors.too_long(bundle, LONGEST);
        return;
    }
    let blocks = blocks(bundle.text());
    let mut faults: Vec<String> = Vec::new();
    let mut seen: Vec<(&[u8], Vec<usize>)> = Vec::new();
    for (index, block) in blocks.iter().enumerate() {
        match fault_of(block) {
            Some(fault) => faults.push(format!("entry {index} {fault}")),
            None => match seen.iter_mut().find(|(der, _)| *der == block.der) {
                Some((_, indices)) => indices.push(index),
                None => seen.push((&block.der, vec![index])),
            },
        }
    }
    if faults.is_empty() && seen.is_empty() {
        faults.push("at least one trust anchor must be provided".to_owned());
    } else if faults.is_empty() {
        let repeated = seen.iter().filter(|(_, indices)| indices.len() > 1);
        faults.extend(repeated.map(|(_, indices)| {
            let indices: Vec<String> = indices.iter().map(usize::to_string).collect();
            format!("duplicate trust anchor (indices [{}])", indices.join(" "))
        }));
    }
    let omitted = Value::from("<value omitted>");
    let shown = bundle.showing(&omitted);
    faults
        .iter()
        .for_each(|fault| errors.invalid(&shown, fault));
}

fn fault_of(block: &Block<'_>) -> Option<String> {
    if block.label != "CERTIFICATE" {
        return Some(format!("has bad block type: {}", block.label));
    }
    if block.has_headers {
        return Some("has PEM block headers".to_owned());
    }
    let Ok(([], certificate)) = X509Certificate::from_der(&block.der) else {
        return Some("does not parse as X.509".to_owned());
    };
    (!certificate.is_ca()).then(|| "does not have the CA bit set".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};
    use serde_json::json;

    fn certificate(name: &str, is_authority: bool) -> String {
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        if is_authority {
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        }
        let key = KeyPair::generate().unwrap();
        params.self_signed(&key).unwrap().pem()
    }

    fn bundle(name: &str, signer: &str, pem: &str) -> Value {
        json!({"metadata": {"name": name}, "spec": {"signerName": signer, "trustBundle": pem}})
    }

    fn faults(bundle: &Value) -> Vec<String> {
        let mut errors = Errors::default();
        create(&mut errors, &Place::root(bundle));
        said(errors)
    }

    fn faults_of_update(new: &Value, old: &Value) -> Vec<String> {
        let mut errors = Errors::default();
        update(&mut errors, &Place::root(new), old);
        said(errors)
    }

    fn said(errors: Errors) -> Vec<String> {
        let causes = errors.0.iter();
        causes
            .map(|cause| format!("{}: {}", cause.field, cause.message))
            .collect()
    }

    /// UPSTREAM: TestValidateClusterTrustBundle, the rows about names.
    #[test]
    fn a_bundle_of_a_signer_is_named_after_it() {
        let pem = certificate("root", true);
        let check = |name: &str, signer: &str| faults(&bundle(name, signer, &pem));
        assert!(check("foo", "").is_empty());
        assert!(check("k8s.io:foo:bar", "k8s.io/foo").is_empty());
        assert_eq!(
            check("k8s.io:bar:foo", ""),
            [
                "metadata.name: Invalid value: \"k8s.io:bar:foo\": ClusterTrustBundle without signer name must not have \":\" in its name"
            ]
        );
        assert_eq!(
            check("plain", "k8s.io/foo"),
            [
                "metadata.name: Invalid value: \"plain\": ClusterTrustBundle for signerName k8s.io/foo must be named with prefix k8s.io:foo:"
            ]
        );
        for rest in ["", "123notADomain"] {
            let said = check(&format!("k8s.io:foo:{rest}"), "k8s.io/foo");
            assert!(
                said[0].contains("a lowercase RFC 1123 subdomain"),
                "{said:?}"
            );
        }
        let said = check("invalid:foo", "invalid");
        assert_eq!(
            said,
            [
                "spec.signerName: Invalid value: \"invalid\": must be a fully qualified domain and path of the form 'example.com/signer-name'"
            ]
        );
    }

    /// UPSTREAM: TestValidateClusterTrustBundle, the rows about certificates.
    #[test]
    fn a_bundle_holds_authorities_each_of_them_once() {
        let (one, two) = (certificate("one", true), certificate("two", true));
        let leaf = certificate("leaf", false);
        let check = |pem: &str| {
            let said = faults(&bundle("foo", "", pem));
            let start = "spec.trustBundle: Invalid value: \"<value omitted>\": ";
            let said = said.iter().map(|fault| fault.replace(start, ""));
            said.collect::<Vec<_>>()
        };
        assert!(check(&format!("{one}garbage\n{two}")).is_empty());
        for nothing in ["", "not PEM", "-----BEGIN CERTIFICATE-----\nAAAA\n"] {
            assert_eq!(
                check(nothing),
                ["at least one trust anchor must be provided"]
            );
        }
        let other = two.replace("CERTIFICATE", "NOTACERTIFICATE");
        assert_eq!(
            check(&format!("{one}{other}")),
            ["entry 1 has bad block type: NOTACERTIFICATE"]
        );
        let headed = two.replacen('\n', "\nkey: value\n\n", 1);
        assert_eq!(
            check(&format!("{one}{headed}")),
            ["entry 1 has PEM block headers"]
        );
        assert_eq!(check(&leaf), ["entry 0 does not have the CA bit set"]);
        assert_eq!(
            check(&format!("{one}{two}{one}")),
            ["duplicate trust anchor (indices [0 2])"]
        );
        let odd = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        assert_eq!(
            check(&format!("{one}{odd}")),
            ["entry 1 does not parse as X.509"]
        );
        let long = "x".repeat(LONGEST + 1);
        assert_eq!(
            check(&long),
            ["spec.trustBundle: Too long: may not be more than 1048576 bytes"]
        );
    }

    /// UPSTREAM: TestValidateClusterTrustBundleUpdate.
    #[test]
    fn a_bundle_keeps_its_signer_and_what_it_held_is_not_read_again() {
        let (one, two) = (certificate("one", true), certificate("two", true));
        let old = bundle("k8s.io:foo:bar", "k8s.io/foo", &one);
        let both = format!("{one}{two}");
        let grown = bundle("k8s.io:foo:bar", "k8s.io/foo", &both);
        assert!(faults_of_update(&grown, &old).is_empty());
        let emptied = bundle("k8s.io:foo:bar", "k8s.io/foo", "garbage");
        assert!(faults_of_update(&emptied, &old)[0].contains("at least one trust anchor"));
        assert!(faults_of_update(&emptied, &emptied).is_empty());
        let moved = bundle("k8s.io:foo:bar", "k8s.io/bar", &one);
        assert_eq!(
            faults_of_update(&moved, &old),
            [
                "metadata.name: Invalid value: \"k8s.io:foo:bar\": ClusterTrustBundle for signerName k8s.io/bar must be named with prefix k8s.io:bar:",
                "spec.signerName: Invalid value: \"k8s.io/bar\": field is immutable",
            ]
        );
    }
}
