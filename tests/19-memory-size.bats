#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
# Kernel memory of a group: it depends on what the group records.
# bats file_tags=bpf

load helpers

memory_of() { # GROUP
	fsn list "$1" --json
	jq '.[0].memory_bytes' <<<"$output"
}

map_field() { # MAP FIELD
	bpftool -j map show pinned "$FUNCSNOOP_BPFFS/funcsnoop/g/$1" | jq ".$2"
}

@test "memory: a group of five functions with return probes needs at most 6 MB" {
	need_bpf
	(($(nproc) <= 4)) || skip "needs a machine with at most 4 processors"
	need_link session
	fsn attach g fix_add fix_fail fix_args6 fix_nested fix_recurse --lib "$FIX/libfix.so" --exit return
	assert_between "$(memory_of g)" 1000000 6000000
	fsn detach g
}

@test "memory: the preset of the CUDA runtime needs at most 25 MB" {
	need_bpf
	need_cuda
	(($(nproc) <= 4)) || skip "needs a machine with at most 4 processors"
	cp "$CUDART" "$BATS_TEST_TMPDIR/libcudart.so.1"
	fsn attach cuda --lib "$BATS_TEST_TMPDIR/libcudart.so.1"
	assert_between "$(memory_of cuda)" 10000000 25000000
	fsn detach cuda
}

@test "memory: maps for features that a group does not use have one entry" {
	local map

	need_bpf
	fsn attach g fix_add --lib "$FIX/libfix.so" --no-nesting --no-processes
	for map in nests more codes rows keys callers kernels handles splits blocks stacks; do
		assert_eq "$map $(map_field "$map" max_entries)" "$map 1"
	done
	fsn detach g
}

@test "memory: a reset adds the functions that were called, and list reports it" {
	local before

	need_bpf
	fsn attach g fix_add fix_ret --lib "$FIX/libfix.so"
	before=$(memory_of g)
	capture "$FIX/call" add 12
	fsn stats g --reset
	assert_between "$(($(memory_of g) - before))" 1 20000
	capture "$FIX/call" add 7
	fsn stats g --json
	assert_json '.[0].functions | map([.name, .calls])' '[["fix_add",7]]'
	fsn stats g --reset
	capture "$FIX/call" add 5
	fsn stats g --json
	assert_json '.[0].functions | map([.name, .calls])' '[["fix_add",5]]'
	fsn detach g
}
