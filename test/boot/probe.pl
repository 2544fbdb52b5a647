# SPDX-License-Identifier: BSD-3-Clause
# What a process may do: probe.pl FILE, one line for each try. The unit of weft-target has to refuse it, but for those named may.
use strict;
use Fcntl;
use Socket;

my $folder = $ARGV[0] =~ s{/[^/]*$}{}r;
open(my $out, ">", $ARGV[0]) or die "$ARGV[0]: $!";
my %do = (
	"read /home" => sub { opendir(my $d, "/home") },
	"see another user's process" => sub { -d "/proc/1" },
	"map memory to be written and executed" => sub { syscall(9, 0, 4096, 7, 0x22, -1, 0) != -1 },
	"make a user namespace" => sub { syscall(272, 0x10000000) == 0 },
	"change the personality" => sub { syscall(135, 8) != -1 },
	"trace" => sub { syscall(101, 0, 0, 0, 0) == 0 },
	"make a file set-user-ID" => sub { open(my $f, ">", "$folder/suid") && chmod(04755, "$folder/suid") },
	"may make a packet socket" => sub { socket(my $s, 17, SOCK_RAW, 0) },
	"may write to its own folder" => sub { open(my $f, ">", "$folder/own") },
	"may write to /tmp" => sub { open(my $f, ">", "/tmp/weft-probe") },
);
for my $what (sort keys %do) {
	$! = 0;
	my $ok = $do{$what}->();
	print $out "$what: ", $ok ? "yes" : "no, $!", "\n";
}
