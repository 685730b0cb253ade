"""Which clients may call the switch's gRPC services: those of certain users of this machine, by default.

The check is around all handlers of a server, whichever services they belong to.
"""

from __future__ import annotations

import functools
import ipaddress
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

import grpc
from grpc import StatusCode
from grpc.aio import AbortError

from softswitch.errors import SwitchError
from softswitch.p4runtime.peers import Address, Endpoint, PeerUsers, parse_peer

Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"

log = logging.getLogger(__name__)
ROOT = 0
_ANY: frozenset[Address] = frozenset({ipaddress.IPv4Address(0), ipaddress.IPv6Address(0)})


@dataclass(frozen=True)
class AccessPolicy:
    """The user IDs whose processes may call, and whether every client may that reaches the port."""

    uids: frozenset[int] = frozenset()
    is_open: bool = False

    def describe(self) -> str:
        return ", ".join(_describe_user(uid) for uid in sorted(self.uids))


def make_policy(
    users: Iterable[str] = (),
    is_open: bool = False,
    own_uid: int | None = None,
    environment: Mapping[str, str] = os.environ,
) -> AccessPolicy:
    """Allow root, the switch's user, the user who started it by sudo, and `users` (names or IDs)."""
    own_uid = os.geteuid() if own_uid is None else own_uid
    uids = {ROOT, own_uid, *map(_parse_user, users)}
    sudo_uid = environment.get("SUDO_UID", "")
    if own_uid == ROOT and sudo_uid.isdecimal():
        uids.add(int(sudo_uid))
    return AccessPolicy(frozenset(uids), is_open)


def _parse_user(text: str) -> int:
    if text.isascii() and text.isdecimal():
        return int(text)
    try:
        import pwd

        return pwd.getpwnam(text).pw_uid
    except (ImportError, KeyError):
        raise SwitchError(f"--allow-user {text}: expected the name or ID of a user of this machine") from None


def _describe_user(uid: int) -> str:
    try:
        import pwd

        return pwd.getpwuid(uid).pw_name
    except (ImportError, KeyError):  # Windows has no such names
        return f"user {uid}"


class AccessCheck:
    """Checks the callers of one server, until `close`."""

    def __init__(self, policy: AccessPolicy) -> None:
        self._policy = policy
        self._servers: list[Endpoint] = []
        self._users = PeerUsers()
        self._reported: set[int | None] = set()
        self._client_of: dict[Endpoint, Endpoint] = {}  # by the endpoint that forwards its calls

    def close(self) -> None:
        self._users.close()

    def listens_at(self, host: str, port: int) -> None:
        """Add an address of the server, with the port that was assigned."""
        self._servers += [Endpoint(address, port) for address in _addresses(host.strip("[]"))]

    @contextmanager
    def forwarded(self, forwarder: Endpoint, client: Endpoint) -> Iterator[None]:
        """Check `client` for the calls that a connection of this process forwards, until it is closed."""
        self._client_of[forwarder] = client
        try:
            yield
        finally:
            del self._client_of[forwarder]

    def denial(self, peer: str) -> str | None:
        """Return why a peer, by gRPC's name, may not call; None if it may."""
        if self._policy.is_open:
            return None
        client = parse_peer(peer)
        client = None if client is None else self._client_of.get(client, client)
        uid = None if client is None else self._users.find_uid(client, self._servers)
        if uid in self._policy.uids:
            return None
        if uid is None:
            caller = f"{peer} is no process of this machine's network, and"
            hint = "use --tls-ca, or --allow-everyone"
        else:
            caller = f"{_describe_user(uid)} (uid {uid})"
            hint = f"start the switch with --allow-user {uid}"
        text = f"{caller} may not call this switch, which serves {self._policy.describe()}: {hint}"
        if uid not in self._reported:
            self._reported.add(uid)
            log.warning("denied a call: %s", text)
        return text


def _addresses(host: str) -> frozenset[Address]:
    """Return the addresses that gRPC may listen at for a host; a name may have several."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return _ANY
    return _ANY if address.is_unspecified else frozenset({address})  # gRPC listens at both for one


class CheckedHandlers(grpc.GenericRpcHandler):
    """The handlers of another `GenericRpcHandler`, which only callers with access reach."""

    def __init__(self, handlers: grpc.GenericRpcHandler, check: AccessCheck, is_async: bool = True) -> None:
        self._handlers = handlers
        make_checked = _make_checked_async if is_async else _make_checked_sync
        self._make_checked = functools.cache(functools.partial(make_checked, check))

    def service(self, details: grpc.HandlerCallDetails) -> Handler | None:
        handler = self._handlers.service(details)
        return None if handler is None else _replace_method(handler, self._make_checked)


def _replace_method(handler: Any, make: Callable[[Any], Any]) -> Handler:
    """Return a handler of the same kind; grpc's types do not declare a handler's attributes."""
    kind = "_".join(
        "stream" if is_stream else "unary"
        for is_stream in (handler.request_streaming, handler.response_streaming)
    )
    make_handler: Any = getattr(grpc, f"{kind}_rpc_method_handler")
    method = make(getattr(handler, kind))
    replaced: Handler = make_handler(method, handler.request_deserializer, handler.response_serializer)
    return replaced


def _make_checked_async(check: AccessCheck, method: Any) -> Any:
    async def call(request: Any, context: Any) -> Any:
        try:
            if (denial := check.denial(context.peer())) is not None:
                await context.abort(StatusCode.PERMISSION_DENIED, denial)
            return await method(request, context)
        except AbortError as error:
            # gRPC raises it again from the call's state. With its frames, which have that state, the request
            # and the pipeline, it would be a reference cycle.
            error.__traceback__ = error.__context__ = None

    return call


def _make_checked_sync(check: AccessCheck, method: Any) -> Any:
    def call(request: Any, context: grpc.ServicerContext) -> Any:
        if (denial := check.denial(context.peer())) is not None:
            context.abort(StatusCode.PERMISSION_DENIED, denial)
        return method(request, context)  # an iterator if it answers with a stream

    return call
