package cluster

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/troupe-llm/troupe/cluster/clusterpb"
)

// The service of a node: Describe says what it is, Session is a session on one of
// its devices.
const (
	serviceName    = "troupe.cluster.v1.Node"
	describeMethod = "/" + serviceName + "/Describe"
	sessionMethod  = "/" + serviceName + "/Session"
)

var sessionDesc = grpc.StreamDesc{StreamName: "Session", Handler: serveSession, ServerStreams: true, ClientStreams: true}

var nodeService = grpc.ServiceDesc{
	ServiceName: serviceName,
	HandlerType: (*any)(nil),
	Methods:     []grpc.MethodDesc{{MethodName: "Describe", Handler: serveDescribe}},
	Streams:     []grpc.StreamDesc{sessionDesc},
}

// keepaliveTime and keepaliveTimeout find connections that are dead and do not say
// so. Sessions have shorter deadlines of their own; a shorter one here would take a
// starved machine for a dead one.
const (
	keepaliveTime    = 10 * time.Second
	keepaliveTimeout = 5 * time.Second
	// maxMessageBytes bounds one message: a prompt of millions of tokens.
	maxMessageBytes = 64 << 20
	// maxStreams bounds the sessions of one connection; a front opens one for each.
	maxStreams = 64
)

func (n *Node) serverOptions() []grpc.ServerOption {
	creds := &countingCredentials{TransportCredentials: credentials.NewTLS(n.o.Security.server), refused: func(peer string, err error) {
		n.o.OnRefused()
		n.o.Logger.Warn("a connection was refused: it is none of the cluster's", "peer", peer, "error", err)
	}}
	return []grpc.ServerOption{
		grpc.Creds(creds), grpc.MaxRecvMsgSize(maxMessageBytes), grpc.ConnectionTimeout(handshakeTimeout), grpc.MaxConcurrentStreams(maxStreams),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: keepaliveTime, Timeout: keepaliveTimeout}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: keepaliveTime / 2, PermitWithoutStream: true}),
		grpc.WaitForHandlers(true),
	}
}

// dial prepares a connection. It tries again soon: a node that starts is awaited.
func (n *Node) dial(address string) (*grpc.ClientConn, error) {
	retry := backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second}
	// passthrough: what stands for several addresses has been resolved.
	return grpc.NewClient("passthrough:///"+address,
		grpc.WithTransportCredentials(n.creds),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessageBytes)),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: keepaliveTime, Timeout: keepaliveTimeout, PermitWithoutStream: true}),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: retry, MinConnectTimeout: time.Second}))
}

func serveDescribe(srv any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
	if err := decode(&clusterpb.Describe{}); err != nil {
		return nil, err
	}
	self, announced, _ := srv.(*Node).state()
	if !announced {
		return nil, status.Error(codes.Unavailable, "the node is starting or has left")
	}
	return self.Info(), nil
}

// ask asks a node what it is.
func ask(ctx context.Context, conn *grpc.ClientConn) (Member, error) {
	var info clusterpb.NodeInfo
	if err := conn.Invoke(ctx, describeMethod, &clusterpb.Describe{}, &info); err != nil {
		return Member{}, err
	}
	return MemberOf(&info)
}

// Session is a worker's side of a session.
type Session struct {
	Open *clusterpb.OpenSession // what was asked for
	*Link[clusterpb.ToWorker, clusterpb.ToFront]
}

// Run reads and writes until the session ends; see OpenSession.
func (s *Session) Run(receive func(*clusterpb.ToWorker)) error { return s.run(receive) }

// Refuse ends a session that is not to be.
func (s *Session) Refuse(reason string) {
	s.Send(&clusterpb.ToFront{Message: &clusterpb.ToFront_Close{Close: &clusterpb.CloseSession{Reason: reason}}})
	s.Finish()
	_ = s.run(func(*clusterpb.ToWorker) {})
}

func serveSession(srv any, stream grpc.ServerStream) error {
	_, _, accept := srv.(*Node).state()
	if accept == nil {
		return status.Error(codes.Unavailable, "the node has no devices, or is starting")
	}
	var first clusterpb.ToWorker
	if err := stream.RecvMsg(&first); err != nil {
		return err
	}
	if first.GetOpen() == nil {
		return status.Error(codes.InvalidArgument, "a session begins with open")
	}
	accept(&Session{Open: first.GetOpen(), Link: newLink[clusterpb.ToWorker, clusterpb.ToFront](stream, nil)})
	return nil
}

// FrontLink is a front's side of a session.
type FrontLink = Link[clusterpb.ToFront, clusterpb.ToWorker]

// OpenSession opens a session on a device of another node and keeps it until it
// ends: opened is called with the link before anything else, receive with each
// message, all from goroutines of the session. The result is nil if the worker ended
// it in good order. It blocks; the end of ctx ends it, too.
func (n *Node) OpenSession(ctx context.Context, m *Member, device int, opened func(*FrontLink), receive func(*clusterpb.ToFront)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	conn, err := n.dial(m.Address)
	if err != nil {
		return err
	}
	defer conn.Close()
	stream, err := conn.NewStream(ctx, &sessionDesc, sessionMethod)
	if err != nil {
		return err
	}
	link := newLink[clusterpb.ToFront, clusterpb.ToWorker](stream, cancel)
	link.Send(&clusterpb.ToWorker{Message: &clusterpb.ToWorker_Open{Open: &clusterpb.OpenSession{
		Incarnation: m.Incarnation, Device: uint32(device), Model: n.o.Model, Front: n.Self().Address,
	}}})
	opened(link)
	return link.run(receive)
}
