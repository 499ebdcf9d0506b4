package replica

import "github.com/ottla-io/ottla/internal/storage"

// What a partition says and hears about its log is in the words of package storage.
type (
	TopicPartition  = storage.TopicPartition
	Log             = *storage.Log
	Origin          = storage.Origin
	AppendOptions   = storage.AppendOptions
	AppendInfo      = storage.AppendInfo
	RecordProblem   = storage.RecordProblem
	RefusedError    = storage.RefusedError
	Slice           = storage.Slice
	AbortedTxn      = storage.AbortedTxn
	TimestampOffset = storage.TimestampOffset
	Producer        = storage.Producer
	Directory       = storage.Directory
	DirectoryLog    = storage.DirectoryLog
	Logs            = *storage.Manager
)

// Who may write.
const (
	FromClient      = storage.FromClient
	FromCoordinator = storage.FromCoordinator
)
