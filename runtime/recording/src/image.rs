//! A picture as `foxglove.CompressedImage` in protocol buffers: of the encodings of this schema the one that all viewers read.

use prost::Message;
use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{
    DescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet, Timestamp,
};

/// Foxglove's message, by its published field numbers.
#[derive(Clone, PartialEq, Message)]
pub struct CompressedImage {
    #[prost(message, optional, tag = "1")]
    pub timestamp: Option<Timestamp>,
    #[prost(bytes = "vec", tag = "2")]
    pub data: Vec<u8>,
    /// `jpeg`.
    #[prost(string, tag = "3")]
    pub format: String,
    /// Here the task and the client that submitted it.
    #[prost(string, tag = "4")]
    pub frame_id: String,
}

/// What a reader of the file finds out about the message: both files that define it, as `protoc` would say it.
pub fn descriptors() -> Vec<u8> {
    let file = |name: &str, package: &str, message: DescriptorProto| FileDescriptorProto {
        name: Some(name.to_owned()),
        package: Some(package.to_owned()),
        message_type: vec![message],
        syntax: Some("proto3".to_owned()),
        ..FileDescriptorProto::default()
    };
    let timestamp = message(
        "Timestamp",
        vec![
            field("seconds", 1, Type::Int64),
            field("nanos", 2, Type::Int32),
        ],
    );
    let image = message(
        "CompressedImage",
        vec![
            FieldDescriptorProto {
                type_name: Some(".google.protobuf.Timestamp".to_owned()),
                ..field("timestamp", 1, Type::Message)
            },
            field("frame_id", 4, Type::String),
            field("data", 2, Type::Bytes),
            field("format", 3, Type::String),
        ],
    );
    const TIMESTAMP: &str = "google/protobuf/timestamp.proto";
    let set = FileDescriptorSet {
        file: vec![
            file(TIMESTAMP, "google.protobuf", timestamp),
            FileDescriptorProto {
                dependency: vec![TIMESTAMP.to_owned()],
                ..file("foxglove/CompressedImage.proto", "foxglove", image)
            },
        ],
    };
    set.encode_to_vec()
}

fn message(name: &str, field: Vec<FieldDescriptorProto>) -> DescriptorProto {
    DescriptorProto {
        name: Some(name.to_owned()),
        field,
        ..DescriptorProto::default()
    }
}

fn field(name: &str, number: i32, of: Type) -> FieldDescriptorProto {
    FieldDescriptorProto {
        name: Some(name.to_owned()),
        number: Some(number),
        label: Some(Label::Optional.into()),
        r#type: Some(of.into()),
        json_name: None,
        ..FieldDescriptorProto::default()
    }
}
