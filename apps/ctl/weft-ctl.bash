# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# Completion of weft-ctl for bash: commands, options, files, and the names of exports of a target that runs.
_weft_ctl() {
	local word=${COMP_WORDS[COMP_CWORD]} ctl=${COMP_WORDS[0]} socket=() words=() i commands names
	for ((i = 1; i < COMP_CWORD; i++)); do
		case ${COMP_WORDS[i]} in
		-s | --socket)
			socket=(--socket "${COMP_WORDS[i + 1]}")
			((i++))
			;;
		--interval | --count) ((i++)) ;;
		-* | watch) ;;
		*) words+=("${COMP_WORDS[i]}") ;;
		esac
	done
	case ${COMP_WORDS[COMP_CWORD - 1]} in
	-s | --socket)
		mapfile -t COMPREPLY < <(compgen -f -- "$word")
		return
		;;
	esac
	if [[ $word == -* ]]; then
		names="--socket --json --wide --help --version"
		case ${words[*]-} in
		drain*) names+=" --timeout-ms" ;;
		exports* | clients* | limits*) names+=" --interval-ms" ;;
		"capture start"*) names+=" --port --file --size --files --snap --peer --tcp-port" ;;
		"capture stop"*) names+=" --port" ;;
		apply*) names+=" --dry-run --confirm --shrink" ;;
		"export resize"*) names+=" --shrink" ;;
		"export delete"*) names+=" --confirm" ;;
		esac
		mapfile -t COMPREPLY < <(compgen -W "$names" -- "$word")
		return
	fi
	case ${#words[@]}:${words[0]-} in
	1:diff | 1:apply | 1:support-bundle | 3:slow)
		mapfile -t COMPREPLY < <(compgen -f -- "$word")
		return
		;;
	esac
	commands=$("$ctl" --commands 2> /dev/null)
	case ${#words[@]}:${words[0]-} in
	0:) names=$(cut -d ' ' -f 1 <<< "$commands" | sort -u) ;;
	1:export | 1:capture | 1:slow) names=$(sed -n "s/^${words[0]} //p" <<< "$commands") ;;
	1:exports | 1:drain | 1:offline | 1:online | 2:export)
		[[ ${words[1]-} == create ]] ||
			names=$("$ctl" "${socket[@]}" exports --interval-ms 0 2> /dev/null | sed '1,/^name /d; s/ .*//')
		;;
	esac
	mapfile -t COMPREPLY < <(compgen -W "${names-}" -- "$word")
}
complete -F _weft_ctl weft-ctl
