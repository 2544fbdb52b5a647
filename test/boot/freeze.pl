# SPDX-License-Identifier: BSD-3-Clause
# Stops the thread of the first worker of the process $ARGV[0], until the process ends: freeze.pl PID
use strict;

for my $task (glob "/proc/$ARGV[0]/task/*") {
	open(my $f, "<", "$task/comm") or next;
	next if <$f> !~ /^w\d/;
	my ($tid) = $task =~ /(\d+)$/;
	syscall(101, 0x4206, $tid + 0, 0, 0) == 0 or die "seize $tid: $!\n";
	syscall(101, 0x4207, $tid + 0, 0, 0) == 0 or die "interrupt $tid: $!\n";
	# wait4() with __WALL: first that it has stopped, then that it has ended.
	syscall(61, $tid + 0, 0, 0x40000000, 0) == $tid or die "wait for $tid: $!\n";
	print "stopped $tid\n";
	syscall(61, $tid + 0, 0, 0x40000000, 0);
	exit 0;
}
die "process $ARGV[0] has no worker\n";
