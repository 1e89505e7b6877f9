//! Passwords: written in the file, or a reference to where they are. Never shown.

use std::fmt;
use std::path::Path;

/// A password.
#[derive(Clone, Default, Eq, PartialEq)]
pub struct Secret(String);

impl Secret {
    /// The text, to be sent and not to be shown.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Resolves `env:NAME`, `file:PATH` and `credential:NAME` (a systemd credential); other text is the
    /// password itself. `variable` looks up the environment.
    ///
    /// # Errors
    ///
    /// What it refers to is not there.
    pub fn resolve(text: &str, variable: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        if let Some(name) = text.strip_prefix("env:") {
            return variable(name).map(Self).ok_or_else(|| format!("variable {name} is not set"));
        }
        if let Some(path) = text.strip_prefix("file:") {
            return Self::read(Path::new(path));
        }
        if let Some(name) = text.strip_prefix("credential:") {
            let directory = variable("CREDENTIALS_DIRECTORY")
                .ok_or("credentials are there only when systemd starts the service with them")?;
            return Self::read(&Path::new(&directory).join(name));
        }
        Ok(Self(text.to_owned()))
    }

    /// The file that a text refers to.
    pub(super) fn file(text: &str) -> Option<&Path> {
        text.strip_prefix("file:").map(Path::new)
    }

    /// Whether a text is the password itself.
    pub(super) fn is_inline(text: &str) -> bool {
        let is_reference = |prefix| text.starts_with(prefix);
        !text.is_empty() && !["env:", "file:", "credential:"].into_iter().any(is_reference)
    }

    /// The text of a file. Editors end files with a newline; passwords do not.
    ///
    /// # Errors
    ///
    /// It cannot be read.
    pub fn read(path: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| format!("{} cannot be read: {error}", path.display()))?;
        Ok(Self(text.trim_end_matches(['\r', '\n']).to_owned()))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_is_resolved_and_the_secret_is_not_shown() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("pw"), "tide\n").unwrap();
        let variable = |name: &str| match name {
            "PW" => Some("gate".to_owned()),
            "CREDENTIALS_DIRECTORY" => Some(folder.path().display().to_string()),
            _ => None,
        };
        let resolve = |text: &str| Secret::resolve(text, variable);
        let file = format!("file:{}", folder.path().join("pw").display());
        let cases =
            [("plain", "plain"), ("env:PW", "gate"), (&file, "tide"), ("credential:pw", "tide")];
        for (text, expected) in cases {
            assert_eq!(resolve(text).unwrap().expose(), expected, "{text}");
        }
        assert_eq!(format!("{:?}", resolve("plain").unwrap()), "(secret)");
        assert_eq!(resolve("env:NO").unwrap_err(), "variable NO is not set");
        assert!(resolve("file:/no/such/file").unwrap_err().contains("cannot be read"));
    }
}
