//! A PKCS #10 request, read as upstream reads it.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::prelude::FromDer;
use x509_parser::x509::X509Name;
use yasna::DERWriterSeq;
use yasna::models::ObjectIdentifier;

/// What a request asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    der: Vec<u8>,
    pub subject: Subject,
    pub dns_names: Vec<String>,
    pub emails: Vec<String>,
    /// Four or sixteen bytes each.
    pub ip_addresses: Vec<Vec<u8>>,
    pub uris: Vec<String>,
    /// The `SubjectPublicKeyInfo` in DER.
    pub public_key: Vec<u8>,
}

/// Why a request cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MalformedRequest {
    #[error("PEM block type must be CERTIFICATE REQUEST")]
    NotPem,
    #[error("malformed certificate request: {0}")]
    Malformed(String),
    #[error("unable to verify certificate request signature: {0}")]
    Signature(String),
}

impl MalformedRequest {
    /// What to do instead: nothing can be done about this one.
    pub fn hint(&self) -> &'static str {
        match self {
            MalformedRequest::NotPem | MalformedRequest::Malformed(_) => {
                "create another request, as `openssl req -new` writes it"
            }
            MalformedRequest::Signature(_) => {
                "create another request, signed by its own key: RSA of 2048 bits or more, ECDSA or Ed25519, with SHA-256"
            }
        }
    }
}

/// The parts of a distinguished name that upstream keeps. Others are dropped from certificates, as upstream drops them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subject {
    /// By [`REPEATED`].
    repeated: [Vec<String>; REPEATED.len()],
    /// Of several the last one counts.
    pub common_name: String,
    serial_number: String,
}

/// All are under 2.5.4, which is these two bytes.
const ATTRIBUTES: [u8; 2] = [0x55, 0x04];

/// Country, province, locality, street, postal code, organization and organizational unit, in the order in which upstream
/// (Go 1.26) writes them, whatever the request's order is.
const REPEATED: [u8; 7] = [6, 8, 7, 9, 17, ORGANIZATION, 11];
const ORGANIZATION: u8 = 10;
const COMMON_NAME: u8 = 3;
const SERIAL_NUMBER: u8 = 5;

impl Request {
    /// From a PEM text in base64, as objects hold it. What follows the first block is not looked at.
    pub fn parse(encoded: &str) -> Result<Request, MalformedRequest> {
        let pem = BASE64_STANDARD
            .decode(encoded)
            .map_err(|_| MalformedRequest::NotPem)?;
        let pem = String::from_utf8_lossy(&pem);
        let first = keys::pem::blocks(&pem).into_iter().next();
        match first.filter(|block| block.label == "CERTIFICATE REQUEST") {
            Some(block) => Request::from_der(block.der),
            None => Err(MalformedRequest::NotPem),
        }
    }

    pub fn from_der(der: Vec<u8>) -> Result<Request, MalformedRequest> {
        let mut request = Request::default();
        {
            let parsed = read(&der)?;
            let info = &parsed.certification_request_info;
            request.subject = Subject::read(&info.subject)?;
            request.public_key = info.subject_pki.raw.to_vec();
            for extension in parsed.requested_extensions().into_iter().flatten() {
                if let ParsedExtension::SubjectAlternativeName(names) = extension {
                    for name in &names.general_names {
                        request.add_name(name)?;
                    }
                }
            }
        }
        request.der = der;
        Ok(request)
    }

    fn add_name(&mut self, name: &GeneralName<'_>) -> Result<(), MalformedRequest> {
        let text = |text: &str| match text.is_ascii() {
            true => Ok(text.to_owned()),
            false => Err(malformed("a subjectAltName is not ASCII")),
        };
        match name {
            GeneralName::DNSName(name) => self.dns_names.push(text(name)?),
            GeneralName::RFC822Name(name) => self.emails.push(text(name)?),
            GeneralName::URI(name) => self.uris.push(text(name)?),
            GeneralName::IPAddress(bytes) if matches!(bytes.len(), 4 | 16) => {
                self.ip_addresses.push(bytes.to_vec());
            }
            GeneralName::IPAddress(_) => {
                return Err(malformed("an IP subjectAltName has a wrong length"));
            }
            GeneralName::Invalid(..) => return Err(malformed("a subjectAltName is malformed")),
            // UPSTREAM: names of other kinds are dropped.
            _ => {}
        }
        Ok(())
    }

    /// Its sender has the private key.
    pub fn verify_signature(&self) -> Result<(), MalformedRequest> {
        let parsed = read(&self.der)?;
        let verified = keys::verify_request(&parsed);
        verified.map_err(|error| MalformedRequest::Signature(error.to_string()))
    }

    /// Its signature is of a kind that can be verified, whether it fits or not. Costs next to nothing.
    pub fn can_be_verified(&self) -> Result<(), MalformedRequest> {
        let known = keys::knows_signature_of(&read(&self.der)?);
        known.map_err(|error| MalformedRequest::Signature(error.to_string()))
    }
}

fn read(der: &[u8]) -> Result<X509CertificationRequest<'_>, MalformedRequest> {
    match X509CertificationRequest::from_der(der) {
        Ok(([], parsed)) => Ok(parsed),
        Ok(_) => Err(malformed("trailing data")),
        Err(error) => Err(MalformedRequest::Malformed(error.to_string())),
    }
}

fn malformed(problem: &str) -> MalformedRequest {
    MalformedRequest::Malformed(problem.to_owned())
}

impl Subject {
    fn read(name: &X509Name<'_>) -> Result<Subject, MalformedRequest> {
        let mut subject = Subject::default();
        for attribute in name.iter_attributes() {
            let oid = attribute.attr_type().as_bytes();
            let Some([kind]) = oid.strip_prefix(&ATTRIBUTES) else {
                continue;
            };
            let value = || {
                let text = attribute.as_str();
                text.map_err(|_| malformed("a name in the subject is no text"))
            };
            match *kind {
                COMMON_NAME => subject.common_name = value()?.to_owned(),
                SERIAL_NUMBER => subject.serial_number = value()?.to_owned(),
                kind => {
                    if let Some(at) = REPEATED.iter().position(|known| *known == kind) {
                        subject.repeated[at].push(value()?.to_owned());
                    }
                }
            }
        }
        Ok(subject)
    }

    /// The groups of a client.
    pub fn organizations(&self) -> &[String] {
        let at = REPEATED.iter().position(|kind| *kind == ORGANIZATION);
        at.map_or(&[], |at| &self.repeated[at])
    }

    pub fn is_empty(&self) -> bool {
        *self == Subject::default()
    }

    /// As a `Name` in DER: one set for each attribute, which holds all its values.
    pub fn to_der(&self) -> Vec<u8> {
        let single = |value: &String| match value.is_empty() {
            true => Vec::new(),
            false => vec![value.clone()],
        };
        yasna::construct_der(|writer| {
            writer.write_sequence(|writer| {
                for (kind, values) in REPEATED.iter().zip(&self.repeated) {
                    write_attribute(writer, *kind, values);
                }
                write_attribute(writer, COMMON_NAME, &single(&self.common_name));
                write_attribute(writer, SERIAL_NUMBER, &single(&self.serial_number));
            });
        })
    }
}

fn write_attribute(writer: &mut DERWriterSeq<'_>, kind: u8, values: &[String]) {
    if values.is_empty() {
        return;
    }
    writer.next().write_set_of(|writer| {
        for value in values {
            writer.next().write_sequence(|writer| {
                let oid = ObjectIdentifier::from_slice(&[2, 5, 4, u64::from(kind)]);
                writer.next().write_oid(&oid);
                match value.chars().all(is_printable) {
                    true => writer.next().write_printable_string(value),
                    false => writer.next().write_utf8_string(value),
                }
            });
        }
    });
}

/// What ASN.1 lets a PrintableString hold.
fn is_printable(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || " '()+,-./:=?".contains(letter)
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, CertificateSigningRequest, DnType, KeyPair};

    use super::*;

    fn encoded(made: &CertificateSigningRequest) -> String {
        BASE64_STANDARD.encode(made.pem().unwrap())
    }

    fn made(common_name: &str, organization: &str, names: &[&str]) -> CertificateSigningRequest {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params
            .distinguished_name
            .push(DnType::CommonName, common_name);
        params
            .distinguished_name
            .push(DnType::OrganizationName, organization);
        params
            .serialize_request(&KeyPair::generate().unwrap())
            .unwrap()
    }

    #[test]
    fn names_and_addresses_are_read() {
        let names = ["node.example", "10.0.0.1", "fd00::1"];
        let request = Request::parse(&encoded(&made("system:node:a", "system:nodes", &names)));
        let request = request.unwrap();
        assert_eq!(request.subject.common_name, "system:node:a");
        assert_eq!(request.subject.organizations(), ["system:nodes"]);
        assert_eq!(request.dns_names, ["node.example"]);
        assert_eq!(request.ip_addresses[0], [10, 0, 0, 1]);
        assert_eq!(request.ip_addresses[1].len(), 16);
        request.verify_signature().unwrap();
    }

    #[test]
    fn several_groups_are_one_set_in_the_order_of_der() {
        let text = |text: &str| text.to_owned();
        let mut subject = Subject {
            common_name: text("jane@example.com"),
            ..Subject::default()
        };
        let at = REPEATED.iter().position(|kind| *kind == ORGANIZATION);
        subject.repeated[at.unwrap()] = vec![text("ops"), text("dev")];
        let der = subject.to_der();
        let (_, name) = X509Name::from_der(&der).unwrap();
        assert_eq!(name.to_string(), "O=dev + O=ops, CN=jane@example.com");
        let read = Subject::read(&name).unwrap();
        assert_eq!(read.organizations(), ["dev", "ops"]);
        assert_eq!(read.common_name, "jane@example.com");
        // An @ is not printable, to ASN.1.
        assert!(der.windows(2).any(|two| two == [0x0c, 16]));
    }

    #[test]
    fn what_is_no_request_is_refused_in_words() {
        let refused = |pem: &[u8]| {
            let refused = Request::parse(&BASE64_STANDARD.encode(pem)).unwrap_err();
            refused.to_string()
        };
        let not_pem = "PEM block type must be CERTIFICATE REQUEST";
        assert_eq!(Request::parse("%%%").unwrap_err().to_string(), not_pem);
        assert_eq!(refused(b""), not_pem);
        assert_eq!(refused(b"nonsense"), not_pem);
        assert_eq!(refused(&vec![b'-'; 1 << 20]), not_pem);
        let wrong = made("a", "b", &[]).pem().unwrap();
        let wrong = wrong.replace("CERTIFICATE REQUEST", "CERTIFICATE");
        assert_eq!(refused(wrong.as_bytes()), not_pem);
        let empty =
            "-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n";
        assert!(refused(empty.as_bytes()).starts_with("malformed certificate request"));
    }

    #[test]
    fn headers_of_a_block_are_passed_over() {
        let pem = made("one", "o", &[]).pem().unwrap();
        let with_header = pem.replacen("-----\n", "-----\nFoo: bar\n\n", 1);
        let read = Request::parse(&BASE64_STANDARD.encode(with_header)).unwrap();
        assert_eq!(read.subject.common_name, "one");
        read.verify_signature().unwrap();
    }

    #[test]
    fn of_two_blocks_the_first_one_counts() {
        let (one, two) = (made("one", "o", &[]), made("two", "o", &[]));
        let both = format!("{}{}", one.pem().unwrap(), two.pem().unwrap());
        let read = Request::parse(&BASE64_STANDARD.encode(both)).unwrap();
        assert_eq!(read.subject.common_name, "one");
    }

    #[test]
    fn a_request_that_was_tampered_with_does_not_verify() {
        let mut der = made("system:node:a", "system:nodes", &[]).der().to_vec();
        let at = der.windows(6).position(|six| six == b"node:a").unwrap();
        der[at + 5] = b'b';
        let request = Request::from_der(der).unwrap();
        assert_eq!(request.subject.common_name, "system:node:b");
        assert!(request.verify_signature().is_err());
    }

    /// By OpenSSL: `openssl req -new -newkey rsa:1024 -subj /CN=a`.
    const RSA_1024: &str = "MIIBSzCBtQIBADAMMQowCAYDVQQDDAFhMIGfMA0GCSqGSIb3DQEBAQUAA4GNADCBiQKBgQCwlh72zSo3f4lAsdBswR4vu9uveo4pNtew2MPEAfPaYmjWe7qu/gp2eNg5W+JwddLOjkj+rNmdCj0Yv21mnwAZ6FioDq+zVkwrRd/INmt6Y899HuWHhW10GBqXHT4qptKgbMVwLWTc7WSLTqu/2GoWTVRbhvuoTUfYYhPyfX9XfQIDAQABoAAwDQYJKoZIhvcNAQELBQADgYEANdceJYcHJYiS3HqGtzhYVG0OA5Dl0BtDtHDwrs0EPf+h895bnp8+lzysbHk73XoWifH+dx2eJU1K7JmsBH3jwy+vhK0hqElfmGYivhqcFmRIda43uRHKNbwKhhl44cQ9epzxmBiXjZb38AuQhbtmHIQi0fp2tVmnwxuP8+VD09I=";

    /// By OpenSSL, for a subject with everything that a name may have in this order:
    /// `/C=DE/ST=By/L=M/O=a/O=b/OU=x/OU=y/street=s/postalCode=1/serialNumber=77/CN=many`.
    const MANY: &str = "MIIBRzCB7QIBADCBijELMAkGA1UEBhMCREUxCzAJBgNVBAgMAkJ5MQowCAYDVQQHDAFNMQowCAYDVQQKDAFhMQowCAYDVQQKDAFiMQowCAYDVQQLDAF4MQowCAYDVQQLDAF5MQowCAYDVQQJDAFzMQowCAYDVQQRDAExMQswCQYDVQQFEwI3NzENMAsGA1UEAwwEbWFueTBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABP0xhSn0cFidc7aQSF8Ze47tDhGGzSD/0c90BX9qy8+E2y1da4UfNsoQDVFn44i6CB3TqDqCGCpZrz0B/3QfMXSgADAKBggqhkjOPQQDAgNJADBGAiEA/mtWWBjSYN7PicO0AUlQT9/Cu/jVGh7vyuCuZPMA0ywCIQCzc7QRhoT3PJsaTiPbnNsvG4aZaZrifhDczLvavsKjrA==";

    #[test]
    fn parts_of_a_name_are_written_in_upstreams_order() {
        let request = Request::from_der(BASE64_STANDARD.decode(MANY).unwrap()).unwrap();
        let der = request.subject.to_der();
        let (_, name) = X509Name::from_der(&der).unwrap();
        assert_eq!(
            name.to_string(),
            "C=DE, ST=By, L=M, streetAddress=s, postalCode=1, O=a + O=b, OU=x + OU=y, CN=many, serialNumber=77"
        );
    }

    #[test]
    fn a_small_rsa_key_is_good_enough_as_it_is_upstream() {
        let request = Request::from_der(BASE64_STANDARD.decode(RSA_1024).unwrap()).unwrap();
        assert_eq!(request.verify_signature(), Ok(()));
    }

    #[test]
    fn every_prefix_of_a_request_is_refused_without_panic() {
        let der = made("system:node:a", "system:nodes", &["a.example"])
            .der()
            .to_vec();
        for length in 0..der.len() {
            assert!(Request::from_der(der[..length].to_vec()).is_err());
        }
        for at in 0..der.len() {
            let mut broken = der.clone();
            broken[at] ^= 0xff;
            let _ = Request::from_der(broken).map(|read| read.subject.to_der());
        }
    }
}
