//! The public half of a key: what believes a signature.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use ring::digest;
use ring::signature::{self, UnparsedPublicKey, VerificationAlgorithm};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, SubjectPublicKeyInfoDer};
use x509_parser::prelude::{FromDer, SubjectPublicKeyInfo, X509Certificate};

use crate::private::{Key, KeyError, PrivateKey};
use crate::{Curve, P256_ALGORITHM, P384_ALGORITHM, RSA_ALGORITHM};

/// A key that verifies, and the name by which tokens refer to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicKey {
    kind: Kind,
    /// As the bit string of a `SubjectPublicKeyInfo` holds it.
    bytes: Vec<u8>,
    id: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Rsa,
    Ecdsa(Curve),
}

/// The numbers of a public key, in base64url.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parameters {
    Rsa {
        modulus: String,
        exponent: String,
    },
    Ec {
        curve: &'static str,
        x: String,
        y: String,
    },
}

impl PublicKey {
    /// All keys of a file: public keys, certificates, and private keys, whose public half is taken.
    pub fn all_from_pem(pem: &[u8]) -> Result<Vec<PublicKey>, KeyError> {
        let mut keys = Vec::new();
        for info in SubjectPublicKeyInfoDer::pem_slice_iter(pem) {
            keys.push(from_info(&info.map_err(KeyError::NotPem)?)?);
        }
        for certificate in CertificateDer::pem_slice_iter(pem) {
            let certificate = certificate.map_err(KeyError::NotPem)?;
            let (_, parsed) = X509Certificate::from_der(&certificate)
                .map_err(|_| KeyError::Unusable("its certificate cannot be parsed".into()))?;
            keys.push(from_info(parsed.public_key().raw)?);
        }
        for private in PrivateKeyDer::pem_slice_iter(pem) {
            let private = private.map_err(KeyError::NotPem)?;
            keys.push(PrivateKey::from_der(&private)?.public_key());
        }
        match keys.is_empty() {
            true => Err(KeyError::Unusable("it holds no key".into())),
            false => Ok(keys),
        }
    }

    /// The digest of the public key, as upstream names keys (`kid`).
    pub fn id(&self) -> &str {
        &self.id
    }

    /// JOSE's name of the algorithm that goes with the key.
    pub fn algorithm(&self) -> &'static str {
        match self.kind {
            Kind::Rsa => "RS256",
            Kind::Ecdsa(Curve::P256) => "ES256",
            Kind::Ecdsa(Curve::P384) => "ES384",
        }
    }

    /// What the key is, as its JSON Web Key says it (RFC 7518, section 6).
    pub fn parameters(&self) -> Parameters {
        let encode = |bytes: &[u8]| BASE64_URL_SAFE_NO_PAD.encode(bytes);
        let point = |curve: &'static str| {
            // The first byte says that both coordinates follow.
            let coordinates = self.bytes.get(1..).unwrap_or_default();
            let (x, y) = coordinates.split_at(coordinates.len() / 2);
            Parameters::Ec {
                curve,
                x: encode(x),
                y: encode(y),
            }
        };
        match self.kind {
            Kind::Ecdsa(Curve::P256) => point("P-256"),
            Kind::Ecdsa(Curve::P384) => point("P-384"),
            Kind::Rsa => {
                let (modulus, exponent) = rsa_numbers(&self.bytes);
                Parameters::Rsa {
                    modulus: encode(&modulus),
                    exponent: encode(&exponent),
                }
            }
        }
    }

    /// Whether the message was signed by the other half.
    pub fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        let algorithm: &'static dyn VerificationAlgorithm = match self.kind {
            Kind::Rsa => &signature::RSA_PKCS1_2048_8192_SHA256,
            Kind::Ecdsa(Curve::P256) => &signature::ECDSA_P256_SHA256_FIXED,
            Kind::Ecdsa(Curve::P384) => &signature::ECDSA_P384_SHA384_FIXED,
        };
        UnparsedPublicKey::new(algorithm, &self.bytes)
            .verify(message, signature)
            .is_ok()
    }

    fn new(kind: Kind, bytes: &[u8]) -> PublicKey {
        let algorithm = match kind {
            Kind::Rsa => RSA_ALGORITHM,
            Kind::Ecdsa(Curve::P256) => P256_ALGORITHM,
            Kind::Ecdsa(Curve::P384) => P384_ALGORITHM,
        };
        let info = yasna::construct_der(|writer| {
            writer.write_sequence(|writer| {
                writer.next().write_der(algorithm);
                writer.next().write_bitvec_bytes(bytes, bytes.len() * 8);
            });
        });
        PublicKey {
            kind,
            bytes: bytes.to_vec(),
            id: BASE64_URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, &info)),
        }
    }
}

impl PrivateKey {
    pub fn public_key(&self) -> PublicKey {
        let kind = match &self.key {
            Key::Rsa(_) => Kind::Rsa,
            Key::Ecdsa(_, curve) => Kind::Ecdsa(*curve),
        };
        PublicKey::new(kind, self.public())
    }
}

/// Modulus and exponent of an `RSAPublicKey`, without leading zeros.
fn rsa_numbers(der: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let numbers = yasna::parse_der(der, |reader| {
        reader.read_sequence(|reader| {
            let (modulus, _) = reader.next().read_bigint_bytes()?;
            let (exponent, _) = reader.next().read_bigint_bytes()?;
            Ok((modulus, exponent))
        })
    });
    let (modulus, exponent) = numbers.unwrap_or_default();
    let trim = |bytes: Vec<u8>| bytes.into_iter().skip_while(|byte| *byte == 0).collect();
    (trim(modulus), trim(exponent))
}

fn from_info(der: &[u8]) -> Result<PublicKey, KeyError> {
    let unusable = |why: &str| KeyError::Unusable(why.to_owned());
    let (_, info) = SubjectPublicKeyInfo::from_der(der)
        .map_err(|_| unusable("its public key cannot be parsed"))?;
    // The first element of the sequence is the algorithm, tag and length included.
    let starts_with = |algorithm: &[u8]| {
        der.windows(algorithm.len())
            .take(8)
            .any(|part| part == algorithm)
    };
    let kind = if starts_with(RSA_ALGORITHM) {
        Kind::Rsa
    } else if starts_with(P256_ALGORITHM) {
        Kind::Ecdsa(Curve::P256)
    } else if starts_with(P384_ALGORITHM) {
        Kind::Ecdsa(Curve::P384)
    } else {
        return Err(unusable("its kind is unknown"));
    };
    Ok(PublicKey::new(kind, &info.subject_public_key.data))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TESTDATA: [&str; 4] = [
        include_str!("../../controllers/src/service_account_token/testdata/ec_pkcs8.pem"),
        include_str!("../../controllers/src/service_account_token/testdata/ec_sec1.pem"),
        include_str!("../../controllers/src/service_account_token/testdata/rsa_pkcs1.pem"),
        include_str!("../../controllers/src/service_account_token/testdata/rsa_pkcs8.pem"),
    ];

    #[test]
    fn each_key_verifies_what_it_signed_and_nothing_else() {
        for pem in TESTDATA {
            let private = PrivateKey::from_pem(pem.as_bytes()).unwrap();
            let [public] = &PublicKey::all_from_pem(pem.as_bytes()).unwrap()[..] else {
                panic!("one key in, one key out");
            };
            let signature = private.sign(b"message").unwrap();
            assert!(public.verifies(b"message", &signature));
            assert!(!public.verifies(b"another", &signature));
            assert!(!public.verifies(b"message", &signature[1..]));
        }
    }

    /// Go's test: TestServeKeys, as far as it is about the numbers of keys.
    #[test]
    fn the_parameters_are_the_numbers_of_the_key() {
        for pem in TESTDATA {
            let private = PrivateKey::from_pem(pem.as_bytes()).unwrap();
            let decode = |text: &str| BASE64_URL_SAFE_NO_PAD.decode(text).unwrap();
            match (private.public_key().parameters(), &private.key) {
                (Parameters::Rsa { modulus, exponent }, Key::Rsa(pair)) => {
                    assert_eq!(decode(&modulus).len(), pair.public().modulus_len());
                    assert_eq!(exponent, "AQAB");
                }
                (Parameters::Ec { x, y, .. }, Key::Ecdsa(..)) => {
                    let point = [vec![4], decode(&x), decode(&y)].concat();
                    assert_eq!(point, private.public());
                }
                (other, _) => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn what_is_no_key_is_refused() {
        for pem in [
            "",
            "x",
            "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n",
        ] {
            assert!(PublicKey::all_from_pem(pem.as_bytes()).is_err(), "{pem:?}");
        }
    }
}
