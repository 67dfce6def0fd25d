//! Which requests are a kubelet's own, and what a client's may ask for. The words are upstream's.

use std::collections::BTreeSet;

use super::Request;

const ORGANIZATION: &str = "system:nodes";
const COMMON_NAME_PREFIX: &str = "system:node:";

/// Sorted, as a refusal lists them. The one in the middle is for RSA keys and may be left out.
const CLIENT_USAGES: [&str; 3] = ["client auth", "digital signature", "key encipherment"];
const SERVING_USAGES: [&str; 3] = ["digital signature", "key encipherment", "server auth"];
const FOR_RSA: &str = "key encipherment";

/// Does a kubelet ask for a certificate as a client of the API server?
pub fn is_kubelet_client<S: AsRef<str>>(request: &Request, usages: &[S]) -> bool {
    validate_kubelet_client(request, usages).is_ok()
}

pub fn validate_kubelet_client<S: AsRef<str>>(
    request: &Request,
    usages: &[S],
) -> Result<(), String> {
    validate_organization(request)?;
    for (names, problem) in [
        (
            request.dns_names.len(),
            "DNS subjectAltNames are not allowed",
        ),
        (
            request.emails.len(),
            "Email subjectAltNames are not allowed",
        ),
        (
            request.ip_addresses.len(),
            "IP subjectAltNames are not allowed",
        ),
        (request.uris.len(), "URI subjectAltNames are not allowed"),
    ] {
        if names > 0 {
            return Err(problem.to_owned());
        }
    }
    validate_common_name(request)?;
    validate_usages(usages, &CLIENT_USAGES)
}

pub fn validate_kubelet_serving<S: AsRef<str>>(
    request: &Request,
    usages: &[S],
) -> Result<(), String> {
    validate_organization(request)?;
    let problem = if request.dns_names.is_empty() && request.ip_addresses.is_empty() {
        Some("DNS or IP subjectAltName is required")
    } else if !request.emails.is_empty() {
        Some("Email subjectAltNames are not allowed")
    } else if !request.uris.is_empty() {
        Some("URI subjectAltNames are not allowed")
    } else {
        None
    };
    if let Some(problem) = problem {
        return Err(problem.to_owned());
    }
    validate_usages(usages, &SERVING_USAGES)?;
    validate_common_name(request)
}

/// A client of the API server that is no kubelet.
pub(super) fn validate_client_usages<S: AsRef<str>>(usages: &[S]) -> Result<(), String> {
    const CLIENT: &str = "client auth";
    for usage in usages.iter().map(AsRef::as_ref) {
        if ![CLIENT, "digital signature", FOR_RSA].contains(&usage) {
            return Err(format!("invalid usage for client certificate: {usage}"));
        }
    }
    match usages.iter().any(|usage| usage.as_ref() == CLIENT) {
        true => Ok(()),
        false => Err(format!(
            "missing required usage for client certificate: {CLIENT}"
        )),
    }
}

fn validate_organization(request: &Request) -> Result<(), String> {
    match request.subject.organizations() {
        [one] if one == ORGANIZATION => Ok(()),
        _ => Err("subject organization is not system:nodes".to_owned()),
    }
}

fn validate_common_name(request: &Request) -> Result<(), String> {
    match request.subject.common_name.starts_with(COMMON_NAME_PREFIX) {
        true => Ok(()),
        false => Err("subject common name does not begin with system:node:".to_owned()),
    }
}

fn validate_usages<S: AsRef<str>>(usages: &[S], required: &[&str; 3]) -> Result<(), String> {
    let given: BTreeSet<&str> = usages.iter().map(AsRef::as_ref).collect();
    let all: BTreeSet<&str> = required.iter().copied().collect();
    let mut without_rsa = all.clone();
    without_rsa.remove(FOR_RSA);
    match given == all || given == without_rsa {
        true => Ok(()),
        false => Err(format!("usages did not match [{}]", required.join(" "))),
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, SanType};

    use super::super::Signer;
    use super::*;

    /// `system:node:a system:nodes dns=x ip=10.0.0.1`
    fn request(text: &str) -> Request {
        let mut params = CertificateParams::new([]).unwrap();
        params.distinguished_name = DistinguishedName::new();
        let mut words = text.split(' ');
        for kind in [DnType::CommonName, DnType::OrganizationName] {
            match words.next() {
                Some("-") | None => {}
                Some(value) => params.distinguished_name.push(kind, value),
            }
        }
        for word in words {
            let (kind, value) = word.split_once('=').unwrap();
            params.subject_alt_names.push(match kind {
                "dns" => SanType::DnsName(value.try_into().unwrap()),
                "ip" => SanType::IpAddress(value.parse().unwrap()),
                "email" => SanType::Rfc822Name(value.try_into().unwrap()),
                "uri" => SanType::URI(value.try_into().unwrap()),
                other => panic!("{other}"),
            });
        }
        let made = params.serialize_request(&KeyPair::generate().unwrap());
        Request::from_der(made.unwrap().der().to_vec()).unwrap()
    }

    fn check(signer: Signer, text: &str, usages: &str, expected: &str) {
        let usages: Vec<&str> = usages
            .split(',')
            .filter(|usage| !usage.is_empty())
            .collect();
        let answer = signer.validate(&request(text), &usages);
        let answer = answer.err().unwrap_or_default();
        assert_eq!(answer, expected, "{signer:?} {text} {usages:?}");
    }

    const CLIENT: &str = "client auth,digital signature,key encipherment";
    const SERVING: &str = "server auth,digital signature,key encipherment";

    #[test]
    fn a_kubelet_may_ask_to_be_a_client() {
        let check = |text: &str, usages: &str, expected: &str| {
            check(Signer::KubeletClient, text, usages, expected);
        };
        check("system:node:a system:nodes", CLIENT, "");
        check(
            "system:node:a system:nodes",
            "digital signature,client auth",
            "",
        );
        // Twice is once.
        check(
            "system:node:a system:nodes",
            "digital signature,client auth,client auth",
            "",
        );
        check(
            "system:node:a others",
            CLIENT,
            "subject organization is not system:nodes",
        );
        check(
            "system:node:a -",
            CLIENT,
            "subject organization is not system:nodes",
        );
        let dns = "DNS subjectAltNames are not allowed";
        check("system:node:a system:nodes dns=a.example", CLIENT, dns);
        let email = "Email subjectAltNames are not allowed";
        check(
            "system:node:a system:nodes email=a@example.com",
            CLIENT,
            email,
        );
        let ip = "IP subjectAltNames are not allowed";
        check("system:node:a system:nodes ip=10.0.0.1", CLIENT, ip);
        let uri = "URI subjectAltNames are not allowed";
        check("system:node:a system:nodes uri=https://a", CLIENT, uri);
        let name = "subject common name does not begin with system:node:";
        check("jane system:nodes", CLIENT, name);
        let usages = "usages did not match [client auth digital signature key encipherment]";
        check("system:node:a system:nodes", SERVING, usages);
        check("system:node:a system:nodes", "", usages);
        check("system:node:a system:nodes", "client auth", usages);
    }

    #[test]
    fn a_kubelet_may_ask_to_serve_names_and_addresses() {
        let check = |text: &str, usages: &str, expected: &str| {
            check(Signer::KubeletServing, text, usages, expected);
        };
        check(
            "system:node:a system:nodes dns=a.example ip=10.0.0.1",
            SERVING,
            "",
        );
        check(
            "system:node:a system:nodes ip=fd00::1",
            "server auth,digital signature",
            "",
        );
        let required = "DNS or IP subjectAltName is required";
        check("system:node:a system:nodes", SERVING, required);
        let email = "Email subjectAltNames are not allowed";
        check("system:node:a system:nodes dns=a email=a@b", SERVING, email);
        let uri = "URI subjectAltNames are not allowed";
        check(
            "system:node:a system:nodes dns=a uri=https://a",
            SERVING,
            uri,
        );
        let usages = "usages did not match [digital signature key encipherment server auth]";
        check("system:node:a system:nodes dns=a", CLIENT, usages);
        // The usages are looked at before the name.
        check("a system:nodes dns=a", CLIENT, usages);
        let name = "subject common name does not begin with system:node:";
        check("a system:nodes dns=a", SERVING, name);
        check(
            "system:node:a - dns=a",
            SERVING,
            "subject organization is not system:nodes",
        );
    }

    #[test]
    fn a_client_may_be_anybody_with_the_usages_of_a_client() {
        let check = |usages: &str, expected: &str| {
            check(Signer::ApiServerClient, "jane dev dns=a", usages, expected);
        };
        check("client auth", "");
        check(CLIENT, "");
        check(SERVING, "invalid usage for client certificate: server auth");
        let missing = "missing required usage for client certificate: client auth";
        check("digital signature", missing);
        check("", missing);
        let odd = "invalid usage for client certificate: Client Auth";
        check("Client Auth", odd);
    }

    #[test]
    fn nothing_is_too_odd_for_the_legacy_signer() {
        check(Signer::LegacyUnknown, "- -", "anything", "");
    }

    #[test]
    fn signers_are_found_by_their_exact_names() {
        for signer in Signer::ALL {
            assert_eq!(Signer::named(signer.name()), Some(signer));
        }
        for name in [
            "",
            "kubernetes.io/",
            "kubernetes.io/kubelet-serving ",
            "example.com/x",
            "\u{0}/\u{202e}",
        ] {
            assert_eq!(Signer::named(name), None, "{name:?}");
        }
    }
}
