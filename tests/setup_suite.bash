# SPDX-License-Identifier: BSD-2-Clause
# bats runs this before the first file: only tests/run makes the surroundings that keep
# the tests away from the machine's own groups.
# shellcheck shell=bash

setup_suite() {
	[[ -n ${FSN_IN_RUN-} ]] || {
		echo "run the tests with tests/run [FILE...] or make check" >&2
		return 1
	}
	[[ -x $FUNCSNOOP ]] || {
		echo "'$FUNCSNOOP' is not built: run make" >&2
		return 1
	}
	# Nothing of the user's may change what the tests see.
	unset NO_COLOR FORCE_COLOR FSN_TEST_MARK
	export LC_ALL=C TZ=UTC HOME=$BATS_SUITE_TMPDIR XDG_CONFIG_HOME=$BATS_SUITE_TMPDIR/config
}
