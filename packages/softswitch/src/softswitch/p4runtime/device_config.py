"""The program in a pipeline config: BMv2 JSON, plain or wrapped in a message of BMv2's clients.

The message, `p4.tmp.P4DeviceConfig` of PI's p4config.proto, is deprecated, but P4's tutorials send it.
"""

from __future__ import annotations

from typing import Any

from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from softswitch.errors import ProgramError

_MESSAGE_NAME = "p4.tmp.P4DeviceConfig"
_JSON_START = b"{"  # a message begins with a field's tag, 0x08, 0x12 or 0x1A: neither this nor white space


def extract_program(device_config: bytes) -> bytes:
    """Return the BMv2 JSON in `p4_device_config`; raises ProgramError for a message without it."""
    if device_config.lstrip().startswith(_JSON_START):
        return device_config
    try:
        message = _P4DeviceConfig.FromString(device_config)
    except DecodeError:
        return device_config  # JSON that begins with a comment, or neither: the JSON parser reports it
    if not message.device_data:
        raise ProgramError(f"{_MESSAGE_NAME} has no device_data: the BMv2 JSON belongs there")
    data: bytes = message.device_data
    return data


def _make_message_class() -> Any:  # a generated message class
    """Return the message class; its fields `reassign` and `extras` are ignored."""
    file = FileDescriptorProto(name="p4/tmp/p4config.proto", package="p4.tmp", syntax="proto3")
    message_type = file.message_type.add(name="P4DeviceConfig")
    optional = FieldDescriptorProto.LABEL_OPTIONAL
    message_type.field.add(name="reassign", number=1, type=FieldDescriptorProto.TYPE_BOOL, label=optional)
    message_type.field.add(name="device_data", number=3, type=FieldDescriptorProto.TYPE_BYTES, label=optional)
    pool = DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return GetMessageClass(pool.FindMessageTypeByName(_MESSAGE_NAME))


_P4DeviceConfig = _make_message_class()
