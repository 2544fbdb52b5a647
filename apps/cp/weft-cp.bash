# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# Completion of weft-cp for bash: the options that its --help names, files, and the beginning of an address.
_weft_cp() {
	local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} options
	COMPREPLY=()
	case $before in
	--address | --auth | --block | --clone | --depth | --dev | --from | --length | --mtu | --offset | --rate | --remove-snapshot | \
		--reconnect | --retries | --retry-wait | --snapshot | --timeout | --wait) return ;;
	esac
	if [[ $word == -* ]]; then
		options=$("${COMP_WORDS[0]}" --help 2> /dev/null | grep -oE '^ +(-[a-z], )?--[a-z-]+' | grep -oE -e '--[a-z-]+')
		mapfile -t COMPREPLY < <(compgen -W "$options -" -- "$word")
	elif [[ -n $word && weft:// == "$word"* ]]; then
		compopt -o nospace 2> /dev/null
		COMPREPLY=(weft://)
	else
		compopt -o filenames 2> /dev/null
		mapfile -t COMPREPLY < <(compgen -f -- "$word")
	fi
}
complete -F _weft_cp weft-cp
