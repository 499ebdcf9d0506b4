package examples

import (
	"os/exec"
	"regexp"
	"testing"

	_ "github.com/ottla-io/ottla/internal/cli" // what the scripts run: the test's result is kept only as long as it is the same
)

func TestLedger(t *testing.T) {
	out, err := exec.Command("bash", "01-ledger/run.sh").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, line := range []string{
		`^Created topic orders\.$`,
		`^LeaderId: +1$`,
		`^\{"leaderId":1,"leaderEpoch":1,"votedId":-1,"votedDirectoryId":"A{22}","data_version":1\}$`,
		`^baseOffset: 0 lastOffset: 2 count: 3 .*isControl: true`,
		`LeaderChange: `, `KRaftVersion `, `KRaftVoters `,
		`^ +3 "type":"PARTITION_RECORD"$`, `^ +6 "type":"FEATURE_LEVEL_RECORD"$`,
		`^baseOffset: \d+ lastOffset: \d+ count: 4 .*\n.*"TOPIC_RECORD".*\n.*"partitionId":0.*\n.*"partitionId":1.*\n.*"partitionId":2`,
		`^topics$`,
		`^PartitionRegistration\(replicas=\[1\], .*elr=\[1\], lastKnownElr=\[1\], leader=-1`,
		`^MetadataProvenance\(lastContainedOffset=\d+, lastContainedEpoch=1,`,
	} {
		if !regexp.MustCompile("(?m)" + line).Match(out) {
			t.Errorf("no line %s in:\n%s", line, out)
		}
	}
}
