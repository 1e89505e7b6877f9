//! Names of interfaces in the flow records themselves, as Open vSwitch sends them: interfaceName (82) and
//! interfaceDescription (83) behind the interface that they are of.

use crate::flow::{Column, Read};

use super::records::Place;
use super::steps::Step;
use super::template::Field;

/// interfaceName, interfaceDescription.
pub(super) const INTERFACE_NAMES: [u16; 2] = [82, 83];

/// ingressInterface, ingressPhysicalInterface; egressInterface, egressPhysicalInterface.
const INPUT: [u16; 2] = [10, 252];
const OUTPUT: [u16; 2] = [14, 253];

/// The steps that fill the columns of names.
pub(super) fn steps(fields: &[Field], places: &[Place]) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut is_output = false;
    for (field, &place) in fields.iter().zip(places) {
        if field.is_iana(&INPUT) || field.is_iana(&OUTPUT) {
            is_output = field.is_iana(&OUTPUT);
        }
        if !field.is_iana(&INTERFACE_NAMES) || field.length == 0 {
            continue;
        }
        let column = match (is_output, field.id) {
            (false, 82) => Column::InputSnmpIfName,
            (false, _) => Column::InputSnmpIfAlias,
            (true, 82) => Column::OutputSnmpIfName,
            (true, _) => Column::OutputSnmpIfAlias,
        };
        if steps.iter().all(|step| step.column != column) {
            steps.push(Step { column, read: Read::Text, place, boot: None, does_yield: false });
        }
    }
    steps
}
