# SPDX-License-Identifier: BSD-2-Clause
# Programs run for a while under all commands, unharmed. `make soak` takes longer. Alone,
# because leftovers are searched for in the whole kernel.
# bats file_tags=bpf,slow,alone

load helpers

@test "soak: no command harms multithreaded C, C++ and Python programs" {
	need_bpf
	need_tool nm bpftool python3
	capture -t 500 tests/soak -O "$O" "${FSN_SOAK:-15}"
	assert_output_match "^soak: [1-9][0-9]* commands, [1-9][0-9]* calls, 0 failed$"
}
