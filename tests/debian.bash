# SPDX-License-Identifier: BSD-2-Clause
# Debian's mirror, from this machine's apt: for downloads of other releases, kernels and
# architectures. Sourced; the caller defines `lacking REASON`, which does not return.
# shellcheck shell=bash disable=SC2034

# Debian 12's has the keys of all releases up to 13.
keyring=/usr/share/keyrings/debian-archive-keyring.gpg

# Sets $main and $security to the mirror's addresses; $1 goes before that of apt's sources.
find_mirror() { # [ADDRESS]
	local uris

	# shellcheck disable=SC2016
	uris=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 2>/dev/null)
	main=${1:-$(grep -m 1 -E '/debian/?$' <<<"$uris")}
	[[ -n $main ]] || lacking "apt's sources name no mirror of Debian"
	security=$(grep -m 1 -E '/debian-security/?$' <<<"$uris")
	security=${security:-${main%/}-security}
}

# The lines of a sources.list for the releases; backports are part of their release's mirror.
sources_of() { # OPTIONS SUITE...
	local suite

	for suite in "${@:2}"; do
		echo "deb [$1] $main $suite main"
		[[ $suite == *-* ]] || echo "deb [$1] $security $suite-security main"
	done
}
