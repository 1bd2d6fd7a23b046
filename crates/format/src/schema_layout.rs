//! A schema as the flat lists that an Arrow message has: field nodes and
//! buffers in depth-first order (formats.md §1.5, §1.7).

use std::ops::Range;

use mainstem_types::{DataType, Schema, TypeKind};

use crate::value::has_variable_length;

/// Where each column of a schema lies in the nodes and buffers of a message.
/// Made once per schema version and shared.
#[derive(Clone, Debug)]
pub struct SchemaLayout {
    columns: Vec<ColumnLayout>,
    /// Ids and positions of the columns, by id.
    positions: Vec<(i32, usize)>,
    nodes: Vec<NodeLayout>,
    buffer_count: usize,
    variable_column_count: usize,
    /// Bit `i % 8` of byte `i / 8` is set if column `i` is NOT NULL, like the
    /// null bits of a row.
    not_null_bits: Vec<u8>,
}

/// One top-level column.
#[derive(Clone, Debug)]
pub(crate) struct ColumnLayout {
    pub(crate) data_type: DataType,
    /// Its node and those of its children.
    pub(crate) nodes: Range<usize>,
    pub(crate) buffers: Range<usize>,
}

/// One field node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NodeLayout {
    pub(crate) kind: NodeKind,
    pub(crate) length: NodeLength,
    /// A null in it is a null in a NOT NULL column. Set only where no ancestor
    /// can be null or a list, so that the node's null count says so by itself.
    pub(crate) not_null: bool,
}

/// The buffers of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodeKind {
    /// Validity; children follow.
    Struct,
    /// Validity, offsets; one child follows. Lists and maps.
    List,
    /// Validity, bits.
    Boolean,
    /// Validity, values of this many bytes.
    Fixed(u32),
    /// Validity, offsets, bytes.
    Variable,
}

/// How long a node must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodeLength {
    /// As the batch has records.
    Records,
    /// As this struct node.
    SameAs(usize),
    /// As the elements of this list node, which only its offsets tell.
    ElementsOf(usize),
}

impl NodeKind {
    pub(crate) fn buffer_count(self) -> usize {
        match self {
            Self::Struct => 1,
            Self::List | Self::Boolean | Self::Fixed(_) => 2,
            Self::Variable => 3,
        }
    }
}

impl SchemaLayout {
    /// The layout of a schema.
    pub fn new(schema: &Schema) -> Self {
        let mut layout = Self {
            columns: Vec::with_capacity(schema.columns.len()),
            positions: Vec::with_capacity(schema.columns.len()),
            nodes: Vec::with_capacity(schema.columns.len()),
            buffer_count: 0,
            variable_column_count: 0,
            not_null_bits: vec![0; schema.columns.len().div_ceil(8)],
        };
        for (position, column) in schema.columns.iter().enumerate() {
            let (first_node, first_buffer) = (layout.nodes.len(), layout.buffer_count);
            layout.push(&column.data_type, NodeLength::Records, true);
            layout.columns.push(ColumnLayout {
                data_type: column.data_type.clone(),
                nodes: first_node..layout.nodes.len(),
                buffers: first_buffer..layout.buffer_count,
            });
            layout.positions.push((column.id, position));
            if !column.data_type.nullable {
                layout.not_null_bits[position / 8] |= 1 << (position % 8);
            }
            if has_variable_length(&column.data_type.kind) {
                layout.variable_column_count += 1;
            }
        }
        layout.positions.sort_unstable();
        layout
    }

    /// Number of top-level columns.
    pub fn column_count(&self) -> usize {
        self.columns.len()
    }

    pub(crate) fn columns(&self) -> &[ColumnLayout] {
        &self.columns
    }

    /// Position of the column with an id.
    pub(crate) fn position_of(&self, column_id: i32) -> Option<usize> {
        let found = self
            .positions
            .binary_search_by_key(&column_id, |(id, _)| *id);
        found.ok().map(|index| self.positions[index].1)
    }

    /// Whether a column has the same nodes and buffers as one of another
    /// version. Names and ids within its type do not matter.
    pub(crate) fn is_alike(
        &self,
        column: &ColumnLayout,
        other: &SchemaLayout,
        other_column: &ColumnLayout,
    ) -> bool {
        let kinds = self.nodes[column.nodes.clone()]
            .iter()
            .map(|node| node.kind);
        kinds.eq(other.nodes[other_column.nodes.clone()]
            .iter()
            .map(|node| node.kind))
    }

    pub(crate) fn nodes(&self) -> &[NodeLayout] {
        &self.nodes
    }

    pub(crate) fn buffer_count(&self) -> usize {
        self.buffer_count
    }

    pub(crate) fn not_null_bits(&self) -> &[u8] {
        &self.not_null_bits
    }

    /// Columns whose length an indexed row lists.
    pub(crate) fn variable_column_count(&self) -> usize {
        self.variable_column_count
    }

    /// Appends the node of a type and those of its children. Recursion is
    /// bounded by the depth of the type, which schemas bound.
    fn push(&mut self, data_type: &DataType, length: NodeLength, present: bool) {
        let node = self.nodes.len();
        // Whether nulls of the children are nulls that the user wrote.
        let not_null = present && !data_type.nullable;
        let kind = node_kind(&data_type.kind);
        self.buffer_count += kind.buffer_count();
        self.nodes.push(NodeLayout {
            kind,
            length,
            not_null,
        });
        match &data_type.kind {
            TypeKind::Array(element) => {
                self.push(element, NodeLength::ElementsOf(node), false);
            }
            TypeKind::Map { key, value } => {
                let entries = self.nodes.len();
                self.buffer_count += NodeKind::Struct.buffer_count();
                self.nodes.push(NodeLayout {
                    kind: NodeKind::Struct,
                    length: NodeLength::ElementsOf(node),
                    not_null: false,
                });
                self.push(key, NodeLength::SameAs(entries), false);
                self.push(value, NodeLength::SameAs(entries), false);
            }
            TypeKind::Row(fields) => {
                for field in fields {
                    self.push(&field.data_type, NodeLength::SameAs(node), not_null);
                }
            }
            _ => {}
        }
    }
}

fn node_kind(kind: &TypeKind) -> NodeKind {
    match kind {
        TypeKind::Boolean => NodeKind::Boolean,
        TypeKind::TinyInt => NodeKind::Fixed(1),
        TypeKind::SmallInt => NodeKind::Fixed(2),
        TypeKind::Int | TypeKind::Float | TypeKind::Date => NodeKind::Fixed(4),
        TypeKind::BigInt | TypeKind::Double => NodeKind::Fixed(8),
        TypeKind::Char { .. } | TypeKind::String | TypeKind::Bytes => NodeKind::Variable,
        TypeKind::Binary { length } => NodeKind::Fixed(*length),
        TypeKind::Decimal { .. } => NodeKind::Fixed(16),
        TypeKind::Time { precision: 0..=3 } => NodeKind::Fixed(4),
        TypeKind::Time { .. } => NodeKind::Fixed(8),
        TypeKind::Timestamp { .. } | TypeKind::TimestampLtz { .. } => NodeKind::Fixed(8),
        TypeKind::Array(_) | TypeKind::Map { .. } => NodeKind::List,
        TypeKind::Row(_) => NodeKind::Struct,
    }
}
