//! Enums that are words on the wire.
//!
//! A word that this version does not know is kept as it came: a newer API server may have added it,
//! and what we write back must not lose it.

/// Declares an enum with a word for each variant, plus `Other` for all the rest, and its serde.
macro_rules! text_enum {
    (
        $(#[$outer:meta])*
        pub enum $name:ident { $( $(#[$inner:meta])* $variant:ident = $word:literal, )+ }
        default $default:literal
    ) => {
        $(#[$outer])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        pub enum $name {
            $( $(#[$inner])* $variant, )+
            /// A word that this version does not know.
            Other($crate::Istr),
        }

        impl $name {
            pub fn as_str(&self) -> &str {
                match self {
                    $( Self::$variant => $word, )+
                    Self::Other(word) => word,
                }
            }

            /// Whether the field was left out.
            pub fn is_unset(&self) -> bool {
                self.as_str().is_empty()
            }
        }

        impl From<&str> for $name {
            fn from(word: &str) -> Self {
                match word {
                    $( $word => Self::$variant, )+
                    other => Self::Other($crate::Istr::from(other)),
                }
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self::from($default)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str(self.as_str())
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let word = <$crate::Istr as serde::Deserialize>::deserialize(deserializer)?;
                Ok(Self::from(&*word))
            }
        }
    };
}

pub(crate) use text_enum;
