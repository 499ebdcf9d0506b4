package kerr

import (
	"errors"
	"fmt"
	"testing"
)

func TestCodes(t *testing.T) {
	for i, e := range table {
		if int(e.Code) != i+1 {
			t.Errorf("%s stands at %d, its code is %d", e.Name, i+1, e.Code)
		}
		if got := FromCode(e.Code); !errors.Is(got, e) {
			t.Errorf("FromCode(%d) = %v, want %s", e.Code, got, e.Name)
		}
	}
	if FromCode(0) != nil || !errors.Is(FromCode(-1), UnknownServerError) {
		t.Error("FromCode of 0 or -1 is wrong")
	}
	if err := FromCode(9999); Code(err) != 9999 || Retriable(err) {
		t.Errorf("an unknown code became %v, %d", err, Code(err))
	}
}

func TestCode(t *testing.T) {
	wrapped := fmt.Errorf("append orders-0: %w", NotLeaderOrFollower)
	if Code(nil) != 0 || Code(wrapped) != 6 || Code(errors.New("disk gone")) != -1 {
		t.Errorf("Code = %d, %d, %d", Code(nil), Code(wrapped), Code(errors.New("disk gone")))
	}
	if !Retriable(wrapped) || Retriable(MessageTooLarge) {
		t.Error("Retriable is wrong")
	}
	if Name(0) != "NONE" || Name(3) != "UNKNOWN_TOPIC_OR_PARTITION" {
		t.Errorf("Name = %s, %s", Name(0), Name(3))
	}
}
