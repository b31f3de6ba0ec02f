# SPDX-License-Identifier: BSD-2-Clause
# What GPU libraries' calls were about: communicators of NCCL's, kernels that were launched. Not
# run on a GPU: the real libraries refuse, stubs and mocks stand in for the driver.
# bats file_tags=bpf

load helpers

STUB=$FIX/libncclstub.so
STUB_AT=0x1044c8

setup() {
	common_setup
	need_bpf
	need_tool jq
}

# --- communicators ------------------------------------------------------------------------

@test "collectives are told apart by communicator, which was there before the attach" {
	local made

	fsn attach nccl --lib "$STUB" --key communicator
	capture "$FIX/ncclcall" "$STUB" made "$STUB_AT"
	assert_output_match 'ncclAllReduce 0 x5'
	made=$(rows nccl communicator "function communicator calls errors" | grep -v 0x | sort)
	assert_eq "$made" "ncclAllReduce fa93daea854b060b 3/8 5 0
ncclBroadcast fa93daea854b060b 3/8 2 0"
	fsn stats nccl --json
	assert_json '[.[0].functions[].rows[].key.communicator | select(.name)
		| [.value, .name, .rank, .ranks, .device]] | unique' \
		'[["0xfa93daea854b060b","fa93daea854b060b 3/8",3,8,3]]'
	assert_json '[.[0].functions[].rows[] | select(.key.communicator.name == null)
		| [.calls, .errors, .key.communicator.value == "0x0", (.key.communicator | length)]]
		| sort' '[[1,0,false,2],[1,1,true,2]]'
	fsn detach nccl
}

@test "the communicators of the real library are known, without a GPU" {
	local version
	local -A at=([22809]=0x1044c8)

	need_nccl
	capture "$FIX/ncclcall" "$NCCL" made 0
	version=$(sed -n 's/^version //p' <<<"$output")
	[[ ${at[$version]-} ]] || skip "where NCCL $version has its rank was not looked up"
	fsn attach nccl --lib "$NCCL" --key communicator
	capture "$FIX/ncclcall" "$NCCL" made "${at[$version]}"
	assert_output_match 'ncclAllReduce 4 x5'
	assert_eq "$(rows nccl communicator "function communicator calls errors" | grep -v 0x | sort)" \
		"ncclAllReduce fa93daea854b060b 3/8 5 5
ncclBroadcast fa93daea854b060b 3/8 2 2"
	fsn stats nccl --json
	assert_json '[.[0].functions[].rows[].key.communicator | select(.name)] | unique
		| [.[] | [.name, .device]]' '[["fa93daea854b060b 3/8",3]]'
	fsn detach nccl
}

@test "where a library's communicators have their rank is refused unless its functions agree" {
	fsn -s 1 attach nccl --lib "$FIX/disagree/libncclstub.so" --key communicator
	assert_stderr_match "^funcsnoop attach: --key 'communicator': where a communicator of .*\
/disagree/libncclstub.so has its rank can't be told: ncclCommUserRank, ncclCommCount and \
ncclCommCuDevice disagree\$"
	fsn -s 2 attach mine fix_add --lib "$FIX/libfix.so" --key communicator
	assert_stderr_match "^funcsnoop attach: --key 'communicator': no function has an argument \
of type ncclComm_t\$"
	fsn list
	assert_output ""
}
