//! A certificate authority: what it puts into a certificate, and for how long. Pure but for the signature.
//!
//! The certificate is written by yasna, the DER writer of rcgen, and not by rcgen itself: that keeps one value for each
//! attribute of a name, and a client that belongs to several groups has several organizations.
//!
//! **Mirrors** `pkg/controller/certificates/authority`, and what Go's `x509.CreateCertificate` makes of it.

use std::time::Duration;

use api::{Istr, Time};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use x509_parser::extensions::ParsedExtension;
use yasna::models::{GeneralizedTime, ObjectIdentifier, UTCTime};
use yasna::{DERWriter, DERWriterSeq, Tag};

use super::usages::{UnrecognizedUsages, Usages};
use crate::certificates::Request;
use keys::{Curve, Key, KeyError, PrivateKey};

/// Clocks of clients may be behind.
const BACKDATE: Duration = Duration::from_secs(5 * 60);
/// Of what lives shorter, five minutes would be more than a hundredth: its end is not moved back.
const SHORT: Duration = Duration::from_secs(8 * 60 * 60);

/// A certificate and its private key. No `Debug`: keys must not be printed.
pub struct Authority {
    key: PrivateKey,
    /// Its own name in DER, which is the issuer of what it signs.
    subject: Vec<u8>,
    subject_key_id: Vec<u8>,
    pub not_after: Time,
}

/// Why there is no authority in what was read.
#[derive(Debug, thiserror::Error)]
pub enum BadAuthority {
    #[error("the CA certificate is not PEM: {0}")]
    NotPem(rustls_pki_types::pem::Error),
    #[error("expected 1 certificate, found {0}")]
    Count(usize),
    #[error("the CA certificate cannot be parsed: {0}")]
    Malformed(String),
    #[error("the CA key: {0}")]
    Key(#[from] KeyError),
    #[error("private key does not match public key")]
    Mismatch,
}

/// Why an authority does not sign.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    #[error(transparent)]
    Usages(#[from] UnrecognizedUsages),
    #[error("the signer has expired: NotAfter={0}")]
    Expired(Time),
    #[error("refusing to sign a certificate that expired in the past: NotAfter={0}")]
    InThePast(Time),
    #[error("failed to sign certificate: {0}")]
    Failed(#[from] KeyError),
}

/// What a certificate is signed on.
pub struct Terms<'a> {
    pub usages: &'a [Istr],
    pub ttl: Duration,
    pub now: Time,
    pub serial: u128,
}

/// A certificate in DER, and when it ends.
pub struct Issued {
    pub der: Vec<u8>,
    pub not_after: Time,
}

impl Authority {
    pub fn from_pem(certificate: &[u8], key: &[u8]) -> Result<Authority, BadAuthority> {
        let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(certificate).collect();
        let found = found.map_err(BadAuthority::NotPem)?;
        let [der] = found.as_slice() else {
            return Err(BadAuthority::Count(found.len()));
        };
        let (_, parsed) = x509_parser::parse_x509_certificate(der)
            .map_err(|error| BadAuthority::Malformed(error.to_string()))?;
        let key = PrivateKey::from_pem(key)?;
        if *parsed.public_key().subject_public_key.data != *key.public() {
            return Err(BadAuthority::Mismatch);
        }
        let extensions = parsed.extensions().iter();
        let mut key_ids = extensions.filter_map(|extension| match extension.parsed_extension() {
            ParsedExtension::SubjectKeyIdentifier(id) => Some(id.0.to_vec()),
            _ => None,
        });
        Ok(Authority {
            subject: parsed.subject().as_raw().to_vec(),
            subject_key_id: key_ids.next().unwrap_or_default(),
            not_after: Time::from_unix(parsed.validity().not_after.timestamp()),
            key,
        })
    }

    /// Signs a request whose own signature was verified. Of its extensions the alternative names alone are kept.
    pub fn sign(&self, request: &Request, terms: &Terms<'_>) -> Result<Issued, Refusal> {
        let usages = Usages::read(terms.usages)?;
        let (not_before, not_after) = validity(terms.now, terms.ttl, self.not_after)?;
        let to_be_signed = yasna::construct_der(|writer| {
            writer.write_sequence(|writer| {
                // Version 3.
                writer
                    .next()
                    .write_tagged(Tag::context(0), |writer| writer.write_u8(2));
                let serial = terms.serial.to_be_bytes();
                writer.next().write_bigint_bytes(&serial, true);
                self.write_algorithm(writer.next());
                writer.next().write_der(&self.subject);
                writer.next().write_sequence(|writer| {
                    write_time(writer.next(), not_before);
                    write_time(writer.next(), not_after);
                });
                writer.next().write_der(&request.subject.to_der());
                writer.next().write_der(&request.public_key);
                writer.next().write_tagged(Tag::context(3), |writer| {
                    writer.write_sequence(|writer| self.write_extensions(writer, request, &usages));
                });
            });
        });
        let signature = self.key.sign_for_certificate(&to_be_signed)?;
        let der = yasna::construct_der(|writer| {
            writer.write_sequence(|writer| {
                writer.next().write_der(&to_be_signed);
                self.write_algorithm(writer.next());
                writer
                    .next()
                    .write_bitvec_bytes(&signature, signature.len() * 8);
            });
        });
        Ok(Issued { der, not_after })
    }

    fn write_algorithm(&self, writer: DERWriter<'_>) {
        writer.write_sequence(|writer| {
            let oid: &[u64] = match &self.key.key {
                Key::Rsa(_) => &[1, 2, 840, 113_549, 1, 1, 11],
                Key::Ecdsa(_, Curve::P256) => &[1, 2, 840, 10_045, 4, 3, 2],
                Key::Ecdsa(_, Curve::P384) => &[1, 2, 840, 10_045, 4, 3, 3],
            };
            writer.next().write_oid(&ObjectIdentifier::from_slice(oid));
            if matches!(self.key.key, Key::Rsa(_)) {
                writer.next().write_null();
            }
        });
    }

    /// In the order in which Go writes them.
    fn write_extensions(&self, writer: &mut DERWriterSeq<'_>, request: &Request, usages: &Usages) {
        const KEY_USAGE: u64 = 15;
        const EXTENDED_KEY_USAGE: u64 = 37;
        const BASIC_CONSTRAINTS: u64 = 19;
        const AUTHORITY_KEY_ID: u64 = 35;
        const ALTERNATIVE_NAMES: u64 = 17;
        if let Some((bits, length)) = usages.key_usage() {
            write_extension(writer, KEY_USAGE, true, |writer| {
                writer.write_bitvec_bytes(&bits, length);
            });
        }
        if !usages.extended.is_empty() {
            write_extension(writer, EXTENDED_KEY_USAGE, false, |writer| {
                writer.write_sequence(|writer| {
                    for oid in usages.extended_oids() {
                        writer.next().write_oid(&ObjectIdentifier::from_slice(oid));
                    }
                });
            });
        }
        // Empty: it is no authority.
        write_extension(writer, BASIC_CONSTRAINTS, true, |writer| {
            writer.write_sequence(|_| {});
        });
        // UPSTREAM: of a certificate that has the issuer's own name the issuer is said to be itself.
        let is_self_named = request.subject.to_der() == self.subject;
        if !self.subject_key_id.is_empty() && !is_self_named {
            write_extension(writer, AUTHORITY_KEY_ID, false, |writer| {
                writer.write_sequence(|writer| {
                    writer
                        .next()
                        .write_tagged_implicit(Tag::context(0), |writer| {
                            writer.write_bytes(&self.subject_key_id);
                        });
                });
            });
        }
        let names = alternative_names(request);
        if !names.is_empty() {
            // Without a subject they are all that it says of its owner.
            let is_critical = request.subject.is_empty();
            write_extension(writer, ALTERNATIVE_NAMES, is_critical, |writer| {
                writer.write_sequence(|writer| {
                    for (tag, bytes) in names {
                        writer
                            .next()
                            .write_tagged_implicit(Tag::context(tag), |writer| {
                                writer.write_bytes(bytes);
                            });
                    }
                });
            });
        }
    }
}

/// By the tags of a `GeneralName`: DNS, mail, IP, URI.
fn alternative_names(request: &Request) -> Vec<(u64, &[u8])> {
    let texts = |tag: u64, names| {
        let names: &Vec<String> = names;
        names.iter().map(move |name| (tag, name.as_bytes()))
    };
    texts(2, &request.dns_names)
        .chain(texts(1, &request.emails))
        .chain(request.ip_addresses.iter().map(|ip| (7, shortest(ip))))
        .chain(texts(6, &request.uris))
        .collect()
}

/// UPSTREAM: an address of version 4 has four bytes, also where a request maps it into version 6.
fn shortest(ip: &[u8]) -> &[u8] {
    const MAPPED: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];
    ip.strip_prefix(&MAPPED).unwrap_or(ip)
}

/// From when until when: a little back, and never beyond the authority's own end.
pub fn validity(now: Time, ttl: Duration, authority: Time) -> Result<(Time, Time), Refusal> {
    let not_before = now.micro().minus(BACKDATE).time();
    let not_after = match ttl < SHORT {
        true => now.micro().plus(ttl),
        false => now.micro().plus(ttl - BACKDATE),
    };
    if not_before >= authority {
        return Err(Refusal::Expired(authority));
    }
    if now >= authority {
        return Err(Refusal::InThePast(authority));
    }
    Ok((not_before, not_after.time().min(authority)))
}

/// `id` is the last arc of 2.5.29.
fn write_extension(
    writer: &mut DERWriterSeq<'_>,
    id: u64,
    is_critical: bool,
    value: impl FnOnce(DERWriter<'_>),
) {
    let value = yasna::construct_der(value);
    writer.next().write_sequence(|writer| {
        let oid = ObjectIdentifier::from_slice(&[2, 5, 29, id]);
        writer.next().write_oid(&oid);
        if is_critical {
            writer.next().write_bool(true);
        }
        writer.next().write_bytes(&value);
    });
}

/// Two digits for the year until 2049, four from then on, as RFC 5280 demands.
fn write_time(writer: DERWriter<'_>, time: Time) {
    let digits: String = time
        .to_string()
        .chars()
        .filter(char::is_ascii_digit)
        .collect();
    let zoned = format!("{digits}Z");
    let is_short = ("1950".."2050").contains(&&digits[..4]);
    let short = is_short.then(|| UTCTime::parse(&zoned.as_bytes()[2..]));
    match short.flatten() {
        Some(time) => writer.write_utctime(&time),
        // Times have fourteen digits, so this always parses.
        None => {
            if let Some(time) = GeneralizedTime::parse(zoned.as_bytes()) {
                writer.write_generalized_time(&time);
            }
        }
    }
}
