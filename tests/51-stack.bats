# SPDX-License-Identifier: BSD-2-Clause
# From 6.13 on a program or subprogram that uses 64 bytes of stack or more, rounded up to 16,
# gets a stack that all tasks of a CPU share, and uprobe programs can be preempted. Ours must
# have none, however much they use.
# bats file_tags=bpf

load helpers

# First instruction of a program with a private stack on x86-64: add %gs:this_cpu_off, %r9
# (emit_priv_frame_ptr, arch/x86/net/bpf_jit_comp.c), where r9 has no other use.
PRIVATE='\x65\x4c\x03\x0c\x25'

# Attaches with OPTIONS and looks at the code of every program.
no_private_stack() { # FUNCTIONS OPTIONS...
	attach_has_none g "$1" --lib "$FIX/libinsn.so" "${@:2}"
}

attach_has_none() { # ARG... of attach, of a group g
	need_arch x86_64
	fsn attach "$@"
	"$FIX/progcode" "$FUNCSNOOP_BPFFS"/funcsnoop/g/link_* >"$BATS_TEST_TMPDIR/code"
	fsn detach g
	[[ -s $BATS_TEST_TMPDIR/code ]] || skip "the programs' machine code can't be seen"
	! LC_ALL=C grep -qaP "$PRIVATE" "$BATS_TEST_TMPDIR/code" ||
		fail "a program has a stack that others use, too"
}

# bats test_tags=core
@test "bpf: programs of a session link have no private stack" {
	need_link session
	no_private_stack 'asm_*' --exit return --slow 1ms
}

@test "bpf: programs on ret instructions and tail calls have no private stack" {
	need_bpf
	no_private_stack '*' --exit ret --slow 1ms
}

@test "bpf: programs of return probes have no private stack" {
	need_link multi
	no_private_stack 'asm_*' --link multi --exit return
}

@test "bpf: programs of perf links have no private stack" {
	need_link perf
	no_private_stack 'asm_nop*' --link perf --exit return
	no_private_stack 'asm_nop*' --link perf --exit ret
}

@test "bpf: programs of GPU activity have no private stack" {
	need_bpf
	attach_has_none gpu --name g --lib "$O/libfuncsnoop-gpu.so"
}

@test "bpf: programs that only count have no private stack" {
	need_bpf
	no_private_stack 'asm_*' --count --comm nobody --cpu 0
}

# bats test_tags=core,arch
@test "bpf: programs that keep stack arguments and text have no private stack" {
	local config=$BATS_TEST_TMPDIR/c.json exit

	need_bpf
	cat >"$config" <<-END
		{ "g_func_sym": { "fix_add": { "symbol": "fix_add", "slow": "1ms", "args": [
			"int a", "int b", "int c", "int d", "int e", "const char *f", "long g",
			"const char *h" ] } },
		  "lib": "$FIX/libfix.so" }
	END
	for exit in return ret; do
		attach_has_none --config "$config" --exit "$exit"
		attach_has_none --config "$config" --exit "$exit" --no-processes
	done
}
