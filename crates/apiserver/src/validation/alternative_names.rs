//! The alternative names that a certificate request asks for, read as strictly as Go's `x509.ParseCertificateRequest`
//! reads them: what is not understood is refused, and not left out of the certificate.

use x509_parser::asn1_rs::{Any, FromDer as _};
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::cri_attributes::ParsedCriAttribute;
use x509_parser::oid_registry::OID_X509_EXT_SUBJECT_ALT_NAME;

/// First bytes of DER: a sequence, and the kinds of names that certificates are given.
const SEQUENCE: u8 = 0x30;
const EMAIL: u8 = 0x81;
const DNS: u8 = 0x82;
const URI: u8 = 0x86;
const IP: u8 = 0x87;

/// What is wrong with the names that a request asks for, in Go's words.
pub(super) fn check(request: &X509CertificationRequest<'_>) -> Result<(), String> {
    let attributes = request.certification_request_info.iter_attributes();
    let extensions = attributes.filter_map(|attribute| match attribute.parsed_attribute() {
        ParsedCriAttribute::ExtensionRequest(asked) => Some(&asked.extensions),
        _ => None,
    });
    extensions
        .flatten()
        .filter(|extension| extension.oid == OID_X509_EXT_SUBJECT_ALT_NAME)
        .try_for_each(|extension| check_names(extension.value))
}

fn check_names(der: &[u8]) -> Result<(), String> {
    let names = match Any::from_der(der) {
        Ok((_, all)) if der.first() == Some(&SEQUENCE) => all.data,
        _ => return Err("x509: invalid subject alternative names".to_owned()),
    };
    let mut rest = names;
    while let Some(kind) = rest.first() {
        let Ok((after, name)) = Any::from_der(rest) else {
            return Err("x509: invalid subject alternative name".to_owned());
        };
        check_name(*kind, name.data)?;
        rest = after;
    }
    Ok(())
}

fn check_name(kind: u8, name: &[u8]) -> Result<(), String> {
    let what = match kind {
        EMAIL => "rfc822Name",
        DNS => "dNSName",
        URI => "uniformResourceIdentifier",
        IP if !matches!(name.len(), 4 | 16) => {
            let length = name.len();
            return Err(format!("x509: cannot parse IP address of length {length}"));
        }
        _ => return Ok(()),
    };
    match name.is_ascii() {
        true => Ok(()),
        false => Err(format!("x509: SAN {what} is malformed")),
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;

    use super::super::certificate_signature;
    use super::*;

    /// By OpenSSL: `openssl req -new -subj /CN=badsan -addext subjectAltName=DER:31:00`.
    const SET: &str = "MIHoMIGPAgEAMBExDzANBgNVBAMMBmJhZHNhbjBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABP0xhSn0cFidc7aQSF8Ze47tDhGGzSD/0c90BX9qy8+E2y1da4UfNsoQDVFn44i6CB3TqDqCGCpZrz0B/3QfMXSgHDAaBgkqhkiG9w0BCQ4xDTALMAkGA1UdEQQCMQAwCgYIKoZIzj0EAwIDSAAwRQIhAKlbIMuiA7qp8AjL17XTE0c5+iOQqzBxCUrWpK3MGCVKAiAMnHbUXAlZzfhYMN/DpxFUeyTmeVk679acw7e4Q2t5ug==";

    #[test]
    fn names_of_another_tag_than_a_sequences_are_refused_with_their_request() {
        let block = format!(
            "-----BEGIN CERTIFICATE REQUEST-----\n{SET}\n-----END CERTIFICATE REQUEST-----\n"
        );
        assert_eq!(
            certificate_signature::verify(&STANDARD.encode(block)).unwrap_err(),
            "x509: invalid subject alternative names"
        );
    }

    #[test]
    fn names_that_go_does_not_read_are_refused_in_its_words() {
        let said = |der: &[u8]| check_names(der).err().unwrap_or_default();
        assert_eq!(said(b"\x30\x00"), "");
        assert_eq!(said(b"\x30\x03\x82\x01a"), "");
        assert_eq!(said(b"\x30\x06\x87\x04\x01\x02\x03\x04"), "");
        assert_eq!(said(b"\x30\x04\x83\x02\xc3\xbc"), "", "another kind");
        let all = "x509: invalid subject alternative names";
        assert_eq!(said(b""), all);
        assert_eq!(said(b"\x31\x00"), all);
        assert_eq!(said(b"\x30\x05\x82\x01a"), all);
        let one = "x509: invalid subject alternative name";
        assert_eq!(said(b"\x30\x03\x82\x05a"), one);
        for (kind, what) in [
            (EMAIL, "rfc822Name"),
            (DNS, "dNSName"),
            (URI, "uniformResourceIdentifier"),
        ] {
            let malformed = format!("x509: SAN {what} is malformed");
            assert_eq!(said(&[SEQUENCE, 4, kind, 2, 0xc3, 0xbc]), malformed);
        }
        assert_eq!(
            said(b"\x30\x07\x87\x05\x01\x02\x03\x04\x05"),
            "x509: cannot parse IP address of length 5"
        );
    }
}
