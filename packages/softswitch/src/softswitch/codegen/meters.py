"""Emit two-rate three-colour meters (RFC 2698; BMv2 meters.cpp)."""

from __future__ import annotations

from llvmlite import ir as llvm

from softswitch.llvmir import I8, I64, integer, word
from softswitch.memory.layout import TOKEN_BUCKET_WORDS, meter_bucket
from softswitch.memory.words import WORD
from softswitch.target import target_of
from softswitch.v1model import Colour


def meter_function(module: llvm.Module) -> llvm.Function:
    """Return `meter(meter, now, amount)`, which returns a `Colour`; `memory.layout` defines its state."""
    if "meter" in module.globals:
        return module.globals["meter"]
    kind = llvm.FunctionType(I8, [target_of(module).pointer, I64, I64])
    function = llvm.Function(module, kind, "meter")
    function.linkage = "internal"
    meter, now, amount = function.args
    b = llvm.IRBuilder(function.append_basic_block("entry"))
    configured = b.load(meter, typ=I64)
    with b.if_then(b.icmp_unsigned("==", configured, integer(WORD, 0))):
        b.ret(integer(8, Colour.GREEN))
    # Bucket 0 is that of the peak rate, bucket 1 that of the committed rate.
    for bucket, colour in enumerate((Colour.RED, Colour.YELLOW)):
        rate, burst, tokens, last_generated_tokens = (
            word(b, meter, meter_bucket(bucket) + i) for i in range(TOKEN_BUCKET_WORDS)
        )
        generated_tokens = target_of(module).multiply_by_double(b, now, rate)
        new_tokens = b.sub(generated_tokens, b.load(last_generated_tokens, typ=I64))
        b.store(generated_tokens, last_generated_tokens)
        level, limit = b.add(b.load(tokens, typ=I64), new_tokens), b.load(burst, typ=I64)
        level = b.select(b.icmp_unsigned("<", level, limit), level, limit)
        has_enough = b.icmp_unsigned(">=", level, amount)
        b.store(b.select(has_enough, b.sub(level, amount), level), tokens)
        with b.if_then(b.not_(has_enough)):
            b.ret(integer(8, colour))
    b.ret(integer(8, Colour.GREEN))
    return function
