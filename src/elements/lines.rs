//! The lines of the two data files.

use std::borrow::Cow;
use std::num::ParseIntError;

use super::data_type::DataType;
use super::element::{Element, Scope};

/// IANA's elements: id, name, type, unit.
pub(super) const IANA: &str = include_str!("iana.csv");
/// The elements of others: enterprise number or `v9`, id, name, type, unit.
pub(super) const ENTERPRISE: &str = include_str!("enterprise.csv");

/// What is wrong with a line.
#[derive(Debug, Eq, PartialEq, thiserror::Error)]
pub(super) enum LineError {
    #[error("{0} fields instead of {1}")]
    FieldCount(usize, usize),
    #[error("{0} is no number: {1}")]
    Number(&'static str, ParseIntError),
    #[error("{0} is not a data type")]
    DataType(&'static str),
    #[error("the name is empty")]
    NoName,
}

/// The lines that hold an element, parsed.
pub(super) fn parse(
    text: &'static str,
    line: fn(&'static str) -> Result<Element, LineError>,
) -> impl Iterator<Item = Result<Element, LineError>> {
    text.lines().filter(|text| !text.starts_with('#')).map(line)
}

/// A line of `iana.csv`.
pub(super) fn iana(line: &'static str) -> Result<Element, LineError> {
    let [id, name, data_type, unit] = fields(line)?;
    element(Scope::IANA, id, name, data_type, unit)
}

/// A line of `enterprise.csv`.
pub(super) fn enterprise(line: &'static str) -> Result<Element, LineError> {
    let [scope, id, name, data_type, unit] = fields(line)?;
    let scope = match scope {
        "v9" => Scope::NetflowV9,
        number => {
            Scope::Enterprise(number.parse().map_err(|error| LineError::Number(number, error))?)
        }
    };
    element(scope, id, name, data_type, unit)
}

/// No field has a comma or quotes, so that a comma always ends one.
fn fields<const COUNT: usize>(line: &'static str) -> Result<[&'static str; COUNT], LineError> {
    let fields: Vec<_> = line.split(',').collect();
    fields.try_into().map_err(|fields: Vec<_>| LineError::FieldCount(fields.len(), COUNT))
}

fn element(
    scope: Scope,
    id: &'static str,
    name: &'static str,
    data_type: &'static str,
    unit: &'static str,
) -> Result<Element, LineError> {
    if name.is_empty() {
        return Err(LineError::NoName);
    }
    Ok(Element {
        scope,
        id: id.parse().map_err(|error| LineError::Number(id, error))?,
        name: Cow::Borrowed(name),
        data_type: DataType::named(data_type).ok_or(LineError::DataType(data_type))?,
        unit,
    })
}
